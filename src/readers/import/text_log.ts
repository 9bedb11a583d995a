/**
 * Reads a file with a program's output as records: the lines with numbers, by
 * src/readers/text/text_lines.ts.
 */
import { recordsOfFields } from "../text/text_file.ts";
import { TextLines } from "../text/text_lines.ts";
import type { SourceRecord } from "../format/tracker_records.ts";

/** Lines for people are not longer; the rest of such a line is skipped. */
const MAX_LINE = 65_536;

/** Names by which an explicitly given file counts as a program's output. */
export function isTextLog(path: string): boolean {
  return /\.(?:log|txt|out)$/.test(path);
}

/** Lines of text that comes in chunks. A progress bar's carriage return ends a line, too. */
export function* linesOf(chunks: Iterable<string>): Generator<string> {
  let rest = "";
  let skipping = false;
  for (const chunk of chunks) {
    const parts = (rest + chunk).split(/[\r\n]/);
    rest = parts.pop()!;
    for (const line of parts) {
      if (!skipping) yield line;
      skipping = false;
    }
    if (rest.length <= MAX_LINE) continue;
    rest = "";
    skipping = true;
  }
  if (rest !== "" && !skipping) yield rest;
}

export function* textRecords(chunks: Iterable<string>): Generator<SourceRecord> {
  const text = new TextLines();
  for (const line of linesOf(chunks)) {
    const fields = text.read(line);
    if (fields === undefined) continue;
    yield* recordsOfFields(fields);
  }
}
