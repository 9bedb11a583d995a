/** One row of a CSV text (RFC 4180), found in bytes. */

const QUOTE = 34;
/** Separators of cells, by their bytes. */
export const SEPARATORS = { ",": 44, ";": 59, "\t": 9 } as const;
export type Separator = keyof typeof SEPARATORS;
const LF = 10;
const CR = 13;
const decoder = new TextDecoder();

export interface Row {
  cells: string[];
  /** Number of its bytes, including the end of the line. */
  bytes: number;
}

/** @returns undefined if the row does not end in these bytes */
export function rowAt(
  bytes: Uint8Array,
  from: number,
  separator: Separator = ",",
): Row | undefined {
  const end = endOfRow(bytes, from, SEPARATORS[separator]);
  if (end < 0) return undefined;
  const last = end > from && bytes[end - 1] === CR ? end - 1 : end;
  return {
    cells: cellsOf(decoder.decode(bytes.subarray(from, last)), separator),
    bytes: end + 1 - from,
  };
}

/** Position of the newline that ends the row; -1 if there is none yet. */
function endOfRow(bytes: Uint8Array, from: number, separator: number): number {
  const newline = bytes.indexOf(LF, from);
  // Nearly every row: a line without quotes.
  if (newline < 0) return -1;
  const quote = bytes.subarray(from, newline).indexOf(QUOTE);
  if (quote < 0) return newline;
  let quoted = false;
  let fresh = true;
  for (let i = from; i < bytes.length; i++) {
    const byte = bytes[i];
    if (quoted) {
      // A doubled quote leaves the field and enters it again at once.
      if (byte === QUOTE) quoted = false;
      continue;
    }
    if (byte === LF) return i;
    // A quote inside an unquoted field is text.
    if (byte === QUOTE && (fresh || bytes[i - 1] === QUOTE)) quoted = true;
    fresh = byte === separator;
  }
  return -1;
}

/** Blanks around a cell are padding. */
function cellsOf(text: string, separator: Separator): string[] {
  if (!text.includes('"')) {
    const cells = text.split(separator);
    return text.includes(" ") ? cells.map((cell) => cell.trim()) : cells;
  }
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] !== '"') {
      const comma = text.indexOf(separator, at);
      cells.push(text.slice(at, comma < 0 ? text.length : comma).trim());
      if (comma < 0) return cells;
      at = comma + 1;
      continue;
    }
    let cell = "";
    let from = at + 1;
    for (;;) {
      const quote = text.indexOf('"', from);
      if (quote < 0) {
        at = text.length;
        cell += text.slice(from);
        break;
      }
      cell += text.slice(from, quote);
      at = quote + 1;
      if (text[at] !== '"') break;
      cell += '"';
      from = at + 1;
    }
    const comma = text.indexOf(separator, at);
    cells.push(cell + text.slice(at, comma < 0 ? text.length : comma));
    if (comma < 0) return cells;
    at = comma + 1;
  }
}

/** The separator of a table, from its first line: the one that occurs most often. */
export function separatorOf(bytes: Uint8Array, from: number): Separator {
  const newline = bytes.indexOf(LF, from);
  const line = bytes.subarray(from, newline < 0 ? bytes.length : newline);
  const counts = { ",": 0, ";": 0, "\t": 0 };
  for (const byte of line) {
    if (byte === 44) counts[","]++;
    else if (byte === 59) counts[";"]++;
    else if (byte === 9) counts["\t"]++;
  }
  if (counts[","] >= Math.max(counts[";"], counts["\t"])) return ",";
  return counts[";"] >= counts["\t"] ? ";" : "\t";
}
