/** The format of a file by its first bytes, for files whose names say nothing. Pure. */
import { isNumeric } from "./tables/csv_header.ts";
import { rowAt, separatorOf } from "./tables/csv_row.ts";
import { flatNumbers, isObject } from "./format/flat.ts";
import { jsonOf, numberOfText } from "./format/literal.ts";
import type { FormatName } from "./format/format_reader.ts";
import { stepName } from "./format/step_column.ts";
import { isResultName } from "./text/named_lines.ts";
import { TextLines } from "./text/text_lines.ts";

/** Bytes that suffice. */
export const CONTENT_HEAD_BYTES = 64 << 10;
const LF = 10;
const NAMES = /^[\p{L}_%#][^"\n]{0,249}$/u;
const MAX_LINES = 200;
const decoder = new TextDecoder();

/**
 * @param head the file's beginning
 * @returns undefined: nothing that mosaic reads, or too little to tell
 */
export function formatOfContent(head: Uint8Array): FormatName | undefined {
  const newline = head.indexOf(LF);
  if (newline < 0 || head.subarray(0, newline).includes(0)) return undefined;
  const first = decoder.decode(head.subarray(0, newline)).trim();
  if (first.startsWith("{")) return isObject(jsonOf(first)) ? "jsonl" : undefined;
  if (isTable(head, newline)) return "csv";
  const text = new TextLines();
  const lines = decoder.decode(head).split(/[\r\n]/).slice(0, MAX_LINES);
  return lines.some((line) => (text.read(line)?.scalars.length ?? 0) > 0) ? "text" : undefined;
}

/**
 * Whether a table or JSON lines seem to be a training's: numbers with a step, or with a name that
 * only results have. Others are data.
 */
export function looksLogged(head: Uint8Array): boolean {
  const format = formatOfContent(head);
  if (format !== "csv" && format !== "jsonl") return false;
  const newline = head.indexOf(LF);
  const first = jsonOf(decoder.decode(head.subarray(0, newline)));
  const names = format === "csv"
    ? rowAt(head, 0, separatorOf(head, 0))?.cells ?? []
    : isObject(first)
    ? [...flatNumbers(first, "/").keys()]
    : [];
  return names.length > 1 && (stepName(names) !== undefined || names.some(isResultName));
}

/** Whether each row is a whole number and another number. */
export function areScalarRows(head: Uint8Array): boolean {
  const lines = decoder.decode(head).split("\n").slice(0, -1).slice(0, MAX_LINES);
  return lines.length > 0 &&
    lines.every((line) =>
      /^\d{1,15},[^,]+$/.test(line.trim()) && isNumeric(line.trim().split(","))
    );
}

/** A row of names, and a row of as many cells with a number. */
function isTable(head: Uint8Array, newline: number): boolean {
  const separator = separatorOf(head, 0);
  const names = rowAt(head, 0, separator)?.cells ?? [];
  if (names.length < 2 || isNumeric(names) || !names.every((name) => NAMES.test(name))) {
    return false;
  }
  const row = rowAt(head, newline + 1, separator);
  return row === undefined ? head.length === newline + 1 : row.cells.length === names.length &&
    row.cells.some((cell) => numberOfText(cell) !== undefined);
}
