/**
 * What the tests of the readers share: files that grow in every way, and readers that are stored
 * and restored.
 */
import assert from "node:assert/strict";
import { openFormat } from "../../../src/readers/formats.ts";
import type {
  FormatName,
  FormatReader,
  FormatState,
  Problem,
  ReadOptions,
} from "../../../src/readers/format/format_reader.ts";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";

export const FIXTURES = new URL("fixtures/", import.meta.url).pathname;

export const bytesOf = (text: string) => new TextEncoder().encode(text);

export interface Found {
  records: SourceRecord[];
  problems: Problem[];
}

/** The reader with the state that a database would give back. */
export function restored(reader: FormatReader): FormatReader {
  return openFormat(reader.format, JSON.parse(JSON.stringify(reader.state())) as FormatState);
}

/** Reads on until the reader gets no further. */
export function readOn(
  reader: FormatReader,
  file: Uint8Array,
  options: ReadOptions = {},
  found?: Found,
): Found {
  found ??= { records: [], problems: [] };
  for (;;) {
    const { records, problems, again } = reader.read(file.subarray(reader.offset), options);
    found.records.push(...records);
    found.problems.push(...problems);
    if (!again) return found;
  }
}

export function readAll(format: FormatName, file: Uint8Array): Found {
  return readOn(openFormat(format), file, { end: true });
}

/**
 * Positions up to which a growing file is seen: each byte of its beginning, then in uneven steps.
 */
function* growth(length: number): Generator<number> {
  for (let to = 0; to < length; to += to < 4000 ? 1 : 997) yield to;
  yield length;
}

/**
 * Holds that a file gives the same records however it grows, and that a reader which is stored and
 * restored between any two reads, or after any record, gives them, too.
 */
export function assertSameHoweverRead(format: FormatName, file: Uint8Array): Found {
  const whole = readAll(format, file);
  const growing: Found = { records: [], problems: [] };
  let reader = openFormat(format);
  for (const to of growth(file.length)) {
    // A copy: a reader may keep nothing of the bytes that it was given.
    const bytes = file.slice(reader.offset, to);
    const { records, problems } = reader.read(bytes, { end: to === file.length });
    growing.records.push(...records);
    growing.problems.push(...problems);
    bytes.fill(0xaa);
    reader = restored(reader);
  }
  readOn(reader, file, { end: true }, growing);
  assert.deepEqual(growing.records, whole.records, "a file that grows byte by byte");
  const single: Found = { records: [], problems: [] };
  reader = openFormat(format);
  for (let again = true; again; reader = restored(reader)) {
    const result = reader.read(file.subarray(reader.offset), { end: true, maxRecords: 1 });
    single.records.push(...result.records);
    single.problems.push(...result.problems);
    again = result.again;
  }
  assert.deepEqual(single.records, whole.records, "restored after every record");
  assert.deepEqual(single.problems, whole.problems, "restored after every record");
  return whole;
}
