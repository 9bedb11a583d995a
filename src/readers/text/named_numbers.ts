/**
 * Reads a line of names and numbers as people write them: `step=10/100: loss=0.3`, `loss: 0.31 acc:
 * 0.7`, `Epoch 3/10 - loss: 0.31`, `step 200 loss 0.57`. The whole line must consist of them, so
 * that no curve is guessed out of prose: a word that belongs to no number rejects the line. Pure;
 * one pass over the line.
 */
import { beginningOf } from "./clean_line.ts";
import { numberAt } from "../format/people_numbers.ts";

export interface NamedNumber {
  name: string;
  value: number;
  /** `10/1000`: 1000. */
  of: number | undefined;
  /** What stands between name and number. */
  by: "=" | ":" | " ";
}

export interface NamedNumbers {
  items: NamedNumber[];
  /** How many pairs there are, also those whose values are texts. */
  pairs: number;
  /** Names whose values are no numbers. */
  texts: string[];
  /** One of them begins like a number. */
  hasOddValue?: boolean;
}

const MAX_ITEMS = 1000;
const SEPARATORS = /(?:[\s,;|•·→]+|-+(?=\s))+/y;
const WORDS = /[\p{L}_][\p{L}\p{N}_./@+-]{0,127}(?: {1,3}[\p{L}_][\p{L}\p{N}_./@+-]{0,63}){0,5}/uy;
/** `elapsed time (ms): 5` */
const UNIT_OF_NAME = / ?\([A-Za-z/%]{1,10}\)(?=\s?:)/y;
const LINK = /\s*([=:])\s*(?![=:])/y;
const BRACKETS = /\((?:[^()]|\([^()]{0,40}\)){0,80}\)|\[(?:[^[\]()]|\([^()]{0,40}\)){0,80}\]/y;
const QUOTED = /"[^"]{0,1000}"|'[^']{0,1000}'/y;
const LIST = /\[([^\][=,]{1,80})\]/y;
const CLOCK = /(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?(?=[\s,;|)\]-]|$)/y;
const NO_VALUE = /(?:None|null|True|False|true|false|N\/A|--?)(?=[\s,;|)\]]|$)/y;
const TEXT = /[^\s,;|=]+/y;
const DEVIATION = /\s?(?:±|\+\/-|\+-)\s?\d[\d.eE+-]{0,24}/y;
/** What may follow a value. */
const BEHIND = /\s*(?:$|[\s,;|)\]([]|:(?=\s|$)|\.$)/y;
/** A sentence has one of these; a record of numbers has none between its names and numbers. */
const PROSE = new Set(
  ("from to of in at is was were are be been by with and or for on after before than took done has have had improved increased " +
    "decreased reached saved saving save loading loaded load using since until per over under out up down no not did does " +
    "this that the a an it we you all only need needs left remaining finished completed started starting ended failed " +
    "found got into while when if as line version port size seed").split(" "),
);

/**
 * @returns undefined if a part of the line is neither a name with its value nor something that may
 * stand beside them
 */
export function namedNumbers(line: string, from = beginningOf(line)): NamedNumbers | undefined {
  const found: NamedNumbers = { items: [], pairs: 0, texts: [] };
  let at = from;
  while (at < line.length) {
    at = behind(SEPARATORS, line, at);
    if (at >= line.length) break;
    const open = line[at];
    if (open === "(" || open === "[") {
      const end = behind(BRACKETS, line, at);
      if (end === at) return undefined;
      const place = found.pairs === 0 ? placeIn(line.slice(at + 1, end - 1)) : undefined;
      if (place !== undefined) found.items.push(place);
      at = end;
      continue;
    }
    const name = exec(WORDS, line, at);
    if (name === undefined || ++found.pairs > MAX_ITEMS) return undefined;
    at = behind(UNIT_OF_NAME, line, at + name.length);
    const link = exec(LINK, line, at);
    at += link?.length ?? 0;
    const by = link === undefined ? " " : link.trim() as "=" | ":";
    if (by === " ") {
      const start = at;
      while (line[at] === " " || line[at] === "\t") at++;
      const inBrackets = exec(LIST, line, at);
      const number = inBrackets === undefined
        ? undefined
        : numberAt(inBrackets.slice(1, -1).trim(), 0);
      if (number?.end === inBrackets?.slice(1, -1).trim().length && number !== undefined) {
        found.items.push({
          name: name.replace(/ +/g, "_"),
          value: number.value,
          of: number.of,
          by,
        });
        at += inBrackets!.length;
        continue;
      }
      // `Epoch(train) [1][50/100]`: what the line is about.
      if ((line[at] === "(" || line[at] === "[") && found.pairs === 1) {
        found.pairs = 0;
        continue;
      }
      if (at === start) return undefined;
    }
    const words = name.split(/ +/);
    if (by === " " && words.some((word) => PROSE.has(word.toLowerCase()))) return undefined;
    // With `=` a name is one word: what stands before it is a prefix, or prose.
    if (by === "=" && words.length > 1 && found.pairs > 1) return undefined;
    const end = valueAt(line, at, by === "=" ? words.at(-1)! : words.join("_"), by, found);
    if (end === undefined) return undefined;
    at = end;
  }
  return found.items.length === 0 ? undefined : found;
}

/** `[100/1000]`, `[Epoch 3/10]` at a line's beginning. */
function placeIn(inner: string): NamedNumber | undefined {
  const [, name, number] = /^\s*(?:([A-Za-z_]{1,20})[ :=]\s*)?(\d[^[\]]{0,40}?)\s*$/.exec(inner) ??
    [];
  if (number === undefined) return undefined;
  const value = numberAt(number, 0);
  if (
    value === undefined || value.end !== number.length ||
    (name === undefined && value.of === undefined)
  ) {
    return undefined;
  }
  return { name: name ?? "step", value: value.value, of: value.of, by: " " };
}

/** Reads the value at `at` into `found`. @returns where it ends; undefined if there is none */
function valueAt(
  line: string,
  at: number,
  name: string,
  by: NamedNumber["by"],
  found: NamedNumbers,
): number | undefined {
  // `Test set: Average loss: 0.05`: the first name is a title.
  const quote = exec(QUOTED, line, at);
  if (quote !== undefined) {
    const number = numberAt(quote, 1);
    if (number?.end === quote.length - 1) {
      found.items.push({ name, value: number.value, of: number.of, by });
    } else found.texts.push(name);
    return at + quote.length;
  }
  const list = by === "=" ? exec(LIST, line, at) : undefined;
  if (list !== undefined) {
    const number = numberAt(list.slice(1, -1).trim(), 0);
    if (number?.end === list.slice(1, -1).trim().length) {
      found.items.push({ name, value: number.value, of: undefined, by });
    } else found.texts.push(name);
    return at + list.length;
  }
  const number = numberAt(line, at);
  if (number !== undefined) {
    const valueEnd = behind(DEVIATION, line, number.end);
    const end = behind(BEHIND, line, valueEnd);
    if (end > valueEnd || valueEnd === line.length) {
      found.items.push({ name, value: number.value, of: number.of, by });
      return line[valueEnd] === ":" || line[valueEnd] === "." ? valueEnd + 1 : valueEnd;
    }
  }
  const other = behind(CLOCK, line, at);
  if (other > at) return other;
  const none = behind(NO_VALUE, line, at);
  if (none > at) return none;
  if (by === "=") {
    const text = exec(TEXT, line, at);
    if (text === undefined) return undefined;
    found.texts.push(name);
    found.hasOddValue ||= /^[+-]?\.?\d+(?:\.\d+)?[a-zA-Z%]/.test(text);
    return at + text.length;
  }
  // A title: nothing was read before it.
  return by === ":" && found.pairs === 1 ? at : undefined;
}

function exec(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** Where the match at `at` ends; `at` if there is none. */
function behind(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
