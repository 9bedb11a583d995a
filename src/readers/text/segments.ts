/**
 * What a terminal shows one after the other on one line: a progress bar is drawn anew behind each
 * carriage return. Pure.
 */
import { Lines } from "../lines/lines.ts";

const RETURN = 13;
/** A bar, and an object that was printed behind it. */
const BAR_AND_OBJECT = /^((?:(?!%\|)[^{}]){0,400}%\|[^{}]{0,2000})(\{.*\})\s*$/s;

/** The parts of line `i`; undefined if it is only one. Blank parts are left out. */
export function segmentsOf(lines: Lines, i: number): Lines | undefined {
  const { bytes, ends } = lines;
  const from = lines.begin(i);
  const end = ends[i]!;
  const found = bytes.subarray(from, end).indexOf(RETURN);
  // The end of a line of Windows.
  if (found < 0 || from + found === end - 1) return undefined;
  return Lines.of(
    ...lines.slice(from, end).split("\r").flatMap((part) => {
      const [, bar, object] = part.includes("%|") ? BAR_AND_OBJECT.exec(part) ?? [] : [];
      return object === undefined ? [part] : [bar!, object];
    }).filter((part) => part.trim() !== ""),
  );
}
