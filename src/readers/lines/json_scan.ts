/**
 * Finds the end of a JSON value in bytes, and checks that it is JSON. The result is the same as
 * JSON.parse's, but no objects are created: most fields of a record are passed on as the worker
 * wrote them, and need only this check. A value that nests deeper than MAX_JSON_DEPTH is none. All
 * functions take the position at which something begins and return the position after it, or -1 if
 * it is not JSON. `end` is the end of the text; later bytes are not read.
 */

import { MAX_JSON_DEPTH } from "../../base/text/json_text.ts";

export const QUOTE = 34;
export const MINUS = 45;
export const DOT = 46;
export const ZERO = 48;
const BACKSLASH = 92;
export const COMMA = 44;
export const COLON = 58;
export const OPEN_BRACKET = 91;
export const OPEN_BRACE = 123;
export const CLOSE_BRACE = 125;
const PLUS = 43;
const SPACE = 32;
const TAB = 9;
const CARRIAGE_RETURN = 13;
const NEWLINE = 10;

export function afterBlanks(bytes: Uint8Array, at: number, end: number): number {
  let i = at;
  while (i < end && bytes[i]! <= SPACE) {
    const c = bytes[i];
    if (c !== SPACE && c !== TAB && c !== CARRIAGE_RETURN && c !== NEWLINE) break;
    i++;
  }
  return i;
}

/** @param at of the opening quote */
export function afterString(bytes: Uint8Array, at: number, end: number): number {
  for (let i = at + 1; i < end; i++) {
    const c = bytes[i]!;
    if (c === QUOTE) return i + 1;
    if (c === BACKSLASH) {
      i = lastOfEscape(bytes, i + 1, end);
      if (i < 0) return -1;
    } else if (c < SPACE) return -1;
  }
  return -1;
}

/** Length of the escape after a backslash, by its character: 1, or 5 for `u` and its digits. */
const ESCAPE_LENGTH = new Uint8Array(256);
for (const c of '"\\/bfnrt') ESCAPE_LENGTH[c.charCodeAt(0)] = 1;
ESCAPE_LENGTH["u".charCodeAt(0)] = 5;

function lastOfEscape(bytes: Uint8Array, at: number, end: number): number {
  const last = at + ESCAPE_LENGTH[at < end ? bytes[at]! : 0]! - 1;
  if (last < at || last >= end) return -1;
  for (let i = at + 1; i <= last; i++) {
    const c = bytes[i]!;
    if (!isDigit(c) && !((c | 32) >= 97 && (c | 32) <= 102)) return -1;
  }
  return last;
}

function isDigit(c: number): boolean {
  return c >= 48 && c <= 57;
}

function afterDigits(bytes: Uint8Array, at: number, end: number): number {
  let i = at;
  while (i < end && isDigit(bytes[i]!)) i++;
  return i;
}

export function afterNumber(bytes: Uint8Array, at: number, end: number): number {
  const first = at < end && bytes[at] === MINUS ? at + 1 : at;
  let i = afterDigits(bytes, first, end);
  if (i === first || (bytes[first] === ZERO && i > first + 1)) return -1;
  if (i < end && bytes[i] === DOT) {
    const fraction = i + 1;
    i = afterDigits(bytes, fraction, end);
    if (i === fraction) return -1;
  }
  if (i < end && (bytes[i]! | 32) === 101) {
    i++;
    if (i < end && (bytes[i] === PLUS || bytes[i] === MINUS)) i++;
    const exponent = i;
    i = afterDigits(bytes, exponent, end);
    if (i === exponent) return -1;
  }
  return i;
}

const asBytes = (word: string) => Uint8Array.from(word, (c) => c.charCodeAt(0));
const [TRUE, FALSE, NULL] = ["true", "false", "null"].map(asBytes) as [
  Uint8Array,
  Uint8Array,
  Uint8Array,
];
/** Python's json.dumps writes these for floats that JSON cannot express. */
const NON_FINITE = ["NaN", "Infinity", "-Infinity"].map(asBytes);

function afterWord(bytes: Uint8Array, at: number, end: number, word: Uint8Array): number {
  if (at + word.length > end) return -1;
  for (let i = 0; i < word.length; i++) if (bytes[at + i] !== word[i]) return -1;
  return at + word.length;
}

export function afterScalar(
  bytes: Uint8Array,
  at: number,
  end: number,
  nonFinite: boolean,
): number {
  if (at >= end) return -1;
  switch (bytes[at]) {
    case QUOTE:
      return afterString(bytes, at, end);
    case 116:
      return afterWord(bytes, at, end, TRUE);
    case 102:
      return afterWord(bytes, at, end, FALSE);
    case 110:
      return afterWord(bytes, at, end, NULL);
  }
  const number = afterNumber(bytes, at, end);
  if (number >= 0 || !nonFinite) return number;
  for (const word of NON_FINITE) {
    const after = afterWord(bytes, at, end, word);
    if (after >= 0) return after;
  }
  return -1;
}

/** Position of the value after a key. */
function afterKey(bytes: Uint8Array, at: number, end: number): number {
  if (at >= end || bytes[at] !== QUOTE) return -1;
  const key = afterString(bytes, at, end);
  if (key < 0) return -1;
  const colon = afterBlanks(bytes, key, end);
  return colon < end && bytes[colon] === COLON ? afterBlanks(bytes, colon + 1, end) : -1;
}

/** Open brackets, outermost first. */
const open: number[] = [];

/** @param nonFinite whether NaN, Infinity and -Infinity count as numbers. */
export function afterValue(bytes: Uint8Array, at: number, end: number, nonFinite: boolean): number {
  let depth = 0;
  let i = at;
  for (;;) {
    const first = i < end ? bytes[i]! : 0;
    if (first === OPEN_BRACKET || first === OPEN_BRACE) {
      i = afterBlanks(bytes, i + 1, end);
      // In ASCII each closing bracket is two after the opening one.
      if (i < end && bytes[i] === first + 2) i++;
      else {
        // The object of the line itself is the first level.
        if (depth + 2 > MAX_JSON_DEPTH) return -1;
        open[depth++] = first;
        if (first === OPEN_BRACE && (i = afterKey(bytes, i, end)) < 0) return -1;
        continue;
      }
    } else if ((i = afterScalar(bytes, i, end, nonFinite)) < 0) return -1;

    for (;;) {
      if (depth === 0) return i;
      i = afterBlanks(bytes, i, end);
      const c = i < end ? bytes[i]! : 0;
      const bracket = open[depth - 1]!;
      if (c === COMMA) {
        i = afterBlanks(bytes, i + 1, end);
        if (bracket === OPEN_BRACE && (i = afterKey(bytes, i, end)) < 0) return -1;
        break;
      }
      if (c !== bracket + 2) return -1;
      depth--;
      i++;
    }
  }
}

/**
 * Objects that follow each other on one line, if there are several and nothing else: two processes
 * printed at the same time (without buffering, Python writes a text and its newline separately).
 */
export function joinedObjects(
  bytes: Uint8Array,
  at: number,
  end: number,
): { from: number; to: number }[] | undefined {
  const found: { from: number; to: number }[] = [];
  for (let from = afterBlanks(bytes, at, end); from < end;) {
    const to = bytes[from] === OPEN_BRACE ? afterValue(bytes, from, end, true) : -1;
    if (to < 0) return undefined;
    found.push({ from, to });
    from = afterBlanks(bytes, to, end);
  }
  return found.length > 1 ? found : undefined;
}
