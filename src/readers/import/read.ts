/** Reads the records of a run's files with bounded memory: one chunk per open file. */
import { MosaicError } from "../../base/errors.ts";
import { openRegular, type RegularFile } from "../../os/files/untrusted.ts";
import { CONTENT_HEAD_BYTES } from "../content.ts";
import {
  FILE_KINDS,
  type FileKind,
  fileKindOf,
  formatOfFile,
  formatOfName,
  openFormat,
  withTag,
} from "../formats.ts";
import { placeable } from "../format/placeable.ts";
import type { FormatName, Problem } from "../format/format_reader.ts";
import type { SourceRecord } from "../format/tracker_records.ts";

import { isTextLog, textRecords } from "./text_log.ts";
import { parentOf } from "../../os/files/files.ts";

const CHUNK_BYTES = 256 << 10;
/** Records of one read that are kept together. */
const MAX_RECORDS = 1000;

/**
 * A file whose name selects no reader is searched for lines with numbers, if its name allows that.
 */
export function isReadable(path: string): boolean {
  return formatOfName(path) !== undefined || isTextLog(path);
}

/** Whether a file whose name is not certain has its kind's format; true for all others. */
export function hasItsFormat(path: string): boolean {
  const kind = fileKindOf(path);
  if (kind?.byContent !== true) return true;
  using file = openRegular(path, parentOf(path));
  return file !== undefined && formatOf(path, file) === kind.format;
}

/** By the content where the name says nothing certain; undefined: lines of text. */
function formatOf(path: string, file: RegularFile): FormatName | undefined {
  const kind = fileKindOf(path);
  if (kind !== undefined && kind.byContent !== true) return kind.format;
  const head = new Uint8Array(CONTENT_HEAD_BYTES);
  return formatOfFile(path, head.subarray(0, file.readSync(0, head))) ??
    (isTextLog(path) ? "text" : undefined);
}

export type OnProblem = (path: string, problem: Problem) => void;

export const baseName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/**
 * @throws MosaicError `not_found`, `permission_denied` (no regular file), `invalid_argument` (no
 * format)
 */
export function* recordsOf(path: string, onProblem: OnProblem): Generator<SourceRecord> {
  if (!isReadable(path)) {
    throw new MosaicError("invalid_argument", `${path}: mosaic reads no files of this name`);
  }
  using file = openRegular(path, parentOf(path));
  if (file === undefined) throw new MosaicError("not_found", `${path}: there is no such file`);
  const format = formatOf(path, file);
  if (format === undefined) {
    throw new MosaicError("invalid_argument", `${path}: its content has no form that mosaic reads`);
  }
  if (format === "text") {
    yield* textRecords(chunksOf(file));
    return;
  }
  const reader = openFormat(format);
  const { size } = file.stat();
  let buffer = new Uint8Array(Math.min(CHUNK_BYTES, Math.max(size, 1)));
  for (;;) {
    const from = reader.offset;
    const length = file.readSync(from, buffer.subarray(0, Math.max(0, size - from)));
    // A file that was truncated meanwhile ends at its new end.
    const end = from + length >= size || length < Math.min(buffer.length, size - from);
    const { records: read, problems, need, again } = reader.read(buffer.subarray(0, length), {
      end,
      maxRecords: MAX_RECORDS,
    });
    const { records, problems: unplaced } = placeable(read, from);
    for (const problem of [...problems, ...unplaced]) onProblem(path, problem);
    yield* withoutParameterTables(withTag(records, path));
    if (again) continue;
    if (end) return;
    if (need > buffer.length || reader.offset === from) {
      buffer = new Uint8Array(Math.min(size, Math.max(need, buffer.length * 2)));
    }
  }
}

function* chunksOf(file: RegularFile): Generator<string> {
  const { size } = file.stat();
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(Math.min(CHUNK_BYTES, size));
  for (let at = 0; at < size;) {
    const length = file.readSync(at, buffer);
    if (length === 0) break;
    at += length;
    yield decoder.decode(buffer.subarray(0, length), { stream: true });
  }
  yield decoder.decode();
}

/** The text of a parameter table repeats the parameters, and may contain secrets. */
function* withoutParameterTables(records: readonly SourceRecord[]): Generator<SourceRecord> {
  for (const [i, record] of records.entries()) {
    const next = records[i + 1];
    if (record.kind === "text" && next?.kind === "params" && next.origin === "text_summary") {
      continue;
    }
    yield record;
  }
}

/** Origin of series: within one source a name is one series, whatever the number of files. */
export interface Source {
  /** "" for the run's event files or its W&B log, else the file's name. */
  label: string;
  files: string[];
  /** Files that were written at the same time: their records are ordered by time. */
  parallel: boolean;
}

/** A run's sources; if several have the same series, the first one's keeps its name. */
export function sourcesOf(files: readonly string[]): Source[] {
  const byKind = new Map<FileKind | undefined, string[]>();
  for (const path of [...files].sort()) {
    const kind = fileKindOf(path);
    byKind.set(kind, [...byKind.get(kind) ?? [], path]);
  }
  const together: Source[] = [];
  const single: Source[] = [];
  for (const kind of [...FILE_KINDS, undefined]) {
    const paths = byKind.get(kind) ?? [];
    if (paths.length === 0) continue;
    if (kind?.label === "directory") together.push(...byDirectory(paths));
    else if (kind?.alone) {
      together.push(...paths.map((path) => ({ label: "", files: [path], parallel: false })));
    } else if (kind?.writer === undefined) {
      single.push(
        ...paths.map((path) => ({ label: baseName(path), files: [path], parallel: false })),
      );
    } else {
      const text = typeof kind.label === "object" ? kind.label.text : "";
      together.push({ label: text, files: paths, parallel: text !== "" });
    }
  }
  return [...together, ...single.sort((a, b) => a.files[0]! < b.files[0]! ? -1 : 1)];
}

/** As live: the series of a directory below the run's own have its name as label. */
function byDirectory(paths: readonly string[]): Source[] {
  const directories = Map.groupBy(paths, parentOf);
  const [own = ""] = [...directories.keys()].sort((a, b) =>
    a.length - b.length || (a < b ? -1 : 1)
  );
  const top = [...directories.keys()].every((one) => one === own || one.startsWith(`${own}/`))
    ? own
    : parentOf(own);
  return [...directories].sort(([a], [b]) => a < b ? -1 : 1)
    .map(([directory, files]) => ({
      label: directory.slice(top.length + 1),
      files,
      parallel: false,
    }));
}

export function* recordsOfSource(source: Source, onProblem: OnProblem): Generator<SourceRecord> {
  const files = source.files.map((path) => recordsOf(path, onProblem));
  if (source.parallel) return yield* byTime(files);
  const ends = endsOf(source.files);
  for (const [i, file] of files.entries()) {
    const path = source.files[i]!;
    yield* ends[i] === Infinity ? file : before(ends[i]!, file, path, onProblem);
  }
}

/** A session's start is the first or second record of its file. */
const FIRST_RECORDS = 3;

/**
 * Of each file the step from which a later one has begun anew (`purge_step`): a program that went
 * on from a checkpoint has written those steps again.
 */
function endsOf(files: readonly string[]): number[] {
  const ends = files.map(() => Infinity);
  for (let i = files.length - 1; i > 0; i--) {
    ends[i - 1] = Math.min(ends[i]!, startOf(files[i]!));
  }
  return ends;
}

function startOf(path: string): number {
  if (fileKindOf(path)?.label !== "directory") return Infinity;
  const records = recordsOf(path, () => {});
  try {
    for (let i = 0; i < FIRST_RECORDS; i++) {
      const { value, done } = records.next();
      if (done === true) return Infinity;
      if (value.kind === "rewind") return value.step ?? 0;
    }
    return Infinity;
  } finally {
    records.return(undefined);
  }
}

function* before(
  end: number,
  records: Generator<SourceRecord>,
  path: string,
  onProblem: OnProblem,
): Generator<SourceRecord> {
  let left = 0;
  for (const record of records) {
    if (record.kind === "scalar" && record.step !== undefined && record.step >= end) left++;
    else yield record;
  }
  if (left === 0) return;
  const detail = `${left} points from step ${end} on: a later file begins there again (purge_step)`;
  onProblem(path, { what: "replaced", at: 0, bytes: 0, detail });
}

/** Records of several files by time; one without a time follows the preceding one. */
function* byTime(files: Generator<SourceRecord>[]): Generator<SourceRecord> {
  try {
    const heads = files.map((file) => ({ file, next: file.next(), time: -Infinity }));
    const timed = (head: typeof heads[number]) => {
      if (head.next.done !== true) head.time = head.next.value.wallTime ?? head.time;
      return head;
    };
    let open = heads.filter(({ next }) => next.done !== true).map(timed);
    while (open.length > 0) {
      const first = open.reduce((least, head) => head.time < least.time ? head : least);
      yield first.next.value as SourceRecord;
      first.next = first.file.next();
      if (first.next.done === true) open = open.filter((head) => head !== first);
      else timed(first);
    }
  } finally {
    for (const file of files) file.return(undefined);
  }
}
