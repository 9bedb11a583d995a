/** Parts of a run's log files by byte offset, cut at line ends so that no character is torn. */
import type { Core, LogOf } from "../../dispatch/core/core.ts";
import { LineRate } from "../../journal/line_rate.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { type ServerEvent, waitFor } from "../http/event_stream.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { MergedLog } from "../../journal/merged_log.ts";
import type { LogFile } from "../../journal/packed_log.ts";
import { infoOf } from "../../os/files/untrusted.ts";

const OWN_LOGS = ["stdout", "stderr"] as const;
/** `both`: in the order in which they were written. */
export const LOG_STREAMS = ["both", ...OWN_LOGS] as const;
export type LogStream = typeof LOG_STREAMS[number];

/** Bound on the bytes of one answer, and on those that one search reads. */
export const CHUNK_BYTES = 256 * 1024;
const SEARCH_BYTES = 16 * 1024 * 1024;

export interface LogChunk {
  /** Byte offsets of the part; the next part begins at `to`. */
  from: number;
  to: number;
  size: number;
  attempt: number;
  text: string;
  /**
   * The unfinished line at the end of the log: what a terminal would show of it, its last
   * characters.
   */
  rest: string;
  /** Of both streams: from where on which of them follows, and when it was written (Unix ms). */
  parts?: { from: number; stream: "stdout" | "stderr"; at: number | null }[];
}

/** Characters of an unfinished line. */
const REST_LENGTH = 4000;

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const decoder = new TextDecoder();

/** Anything but a regular file has no size; reading it gives an error that says why. */
function sizeOf(path: string): number {
  const info = infoOf(path);
  return info?.isFile === true ? info.size : 0;
}

export function logSizes(core: Core, row: RunRow): Record<LogStream, number> {
  const [stdout = 0, stderr = 0] = OWN_LOGS.map((s) => sizeOf(core.logFile(row, s)));
  return { both: stdout + stderr, stdout, stderr };
}

function open(core: Core, row: RunRow, stream: LogStream, attempt: number | undefined) {
  const of = logOf(attempt);
  return stream === "both" ? core.openMergedLog(row, of) : core.openLog(row, stream, of);
}

function partsOf(file: LogFile | MergedLog | undefined, from: number, to: number) {
  if (!(file instanceof MergedLog)) return {};
  const parts = file.parts(from, to).map((part) => ({
    ...{ from: Math.max(from, part.from), stream: part.stream, at: part.at ?? null },
  }));
  return { parts };
}

async function readBytes(
  file: LogFile | MergedLog | undefined,
  from: number,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (file === undefined || length <= 0) return new Uint8Array();
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, await file.read(from, bytes));
}

/**
 * The lines from byte `from` on; a negative `from` means the last that many bytes (beginning at a
 * line). An unfinished last line is left for the next call, unless the attempt is over or the line
 * fills the answer.
 * @param attempt default: the newest
 * @throws {MosaicError} `invalid_argument` for an attempt that the run did not have
 */
export async function readLog(
  core: Core,
  row: RunRow,
  stream: LogStream,
  from: number,
  attempt?: number,
): Promise<LogChunk> {
  const { bytes, ...where } = await readLines(core, row, stream, from, attempt);
  return { ...where, text: decoder.decode(bytes) };
}

async function readLines(
  core: Core,
  row: RunRow,
  stream: LogStream,
  from: number,
  attempt?: number,
) {
  using file = open(core, row, stream, attempt);
  const size = file?.size ?? 0;
  const begin = file?.begin() ?? 0;
  let start = Math.max(
    begin,
    from < 0 ? size + Math.max(from, -CHUNK_BYTES) : Math.min(from, size),
  );
  let bytes = await readBytes(file, start, Math.min(CHUNK_BYTES, size - start));
  if (from < 0 && start > begin) {
    const lineStart = bytes.indexOf(NEWLINE) + 1;
    start += lineStart;
    bytes = bytes.subarray(lineStart);
  }
  const lastEnd = bytes.lastIndexOf(NEWLINE) + 1;
  const atEnd = start + bytes.length === size;
  const live = !isEnded(row.state) && (attempt ?? row.attempt) === row.attempt;
  const unfinished = atEnd && live ? restOf(bytes.subarray(lastEnd)) : "";
  // Of both, a progress bar on standard error is what changes.
  const pending = live && file instanceof MergedLog
    ? await file.rest(4 * REST_LENGTH)
    : new Uint8Array();
  const rest = restOf(pending.subarray(pending.lastIndexOf(NEWLINE) + 1)) || unfinished;
  if (atEnd ? live : lastEnd > 0) bytes = bytes.subarray(0, lastEnd);
  return {
    from: start,
    to: start + bytes.length,
    size,
    attempt: attempt ?? row.attempt,
    rest,
    ...partsOf(file, start, start + bytes.length),
    bytes,
  };
}

function logOf(attempt: number | undefined): LogOf {
  return attempt === undefined ? {} : { attempt };
}

/**
 * A progress bar writes its line repeatedly, separated by carriage returns: the last one counts.
 */
function restOf(bytes: Uint8Array): string {
  let end = bytes.length;
  while (bytes[end - 1] === CARRIAGE_RETURN) end--;
  const line = bytes.subarray(0, end);
  return decoder.decode(line.subarray(line.lastIndexOf(CARRIAGE_RETURN) + 1)).slice(-REST_LENGTH);
}

/** The lines before byte `before`, about `length` bytes of them, for scrolling back. */
export async function readLogBefore(
  core: Core,
  row: RunRow,
  stream: LogStream,
  before: number,
  attempt?: number,
): Promise<LogChunk> {
  using file = open(core, row, stream, attempt);
  const size = file?.size ?? 0;
  const begin = file?.begin() ?? 0;
  const end = Math.max(begin, Math.min(before, size));
  let start = Math.max(begin, end - CHUNK_BYTES);
  let bytes = await readBytes(file, start, end - start);
  const lineStart = start > begin ? bytes.indexOf(NEWLINE) + 1 : 0;
  start += lineStart;
  bytes = bytes.subarray(lineStart);
  return {
    from: start,
    to: end,
    size,
    attempt: attempt ?? row.attempt,
    text: decoder.decode(bytes),
    rest: "",
    ...partsOf(file, start, end),
  };
}

/** The whole log as a file: as far as it has come. */
export function logDownload(
  core: Core,
  row: RunRow,
  stream: LogStream,
  attempt?: number,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const file = open(core, row, stream, attempt);
  let at = file?.begin() ?? 0;
  return new ReadableStream({
    async pull(controller) {
      const bytes = await readBytes(file, at, Math.min(CHUNK_BYTES, (file?.size ?? 0) - at));
      at += bytes.length;
      if (bytes.length > 0) return controller.enqueue(bytes);
      file?.[Symbol.dispose]();
      controller.close();
    },
    cancel: () => file?.[Symbol.dispose](),
  });
}

export interface LogMatches {
  matches: { offset: number; line: string }[];
  /** Where the next search continues. */
  to: number;
  size: number;
  done: boolean;
}

/** In lower case, at the same positions: this letter alone becomes longer. */
function lowered(text: string): string {
  return text.replaceAll("\u0130", "i").toLowerCase();
}

/**
 * Finds the matches first and the borders of their lines then, because a log may consist of empty
 * lines.
 */
export function* linesWith(
  wanted: string,
  bytes: Uint8Array,
): Generator<{ from: number; to: number; line: string }> {
  if (wanted.includes("\n")) return;
  const text = decoder.decode(bytes);
  const searched = lowered(text);
  let begin = 0;
  let from = 0;
  for (let found = searched.indexOf(wanted); found >= 0; found = searched.indexOf(wanted, begin)) {
    // Bytes and text have the same lines; other positions differ.
    for (let next; (next = text.indexOf("\n", begin)) >= 0 && next < found;) {
      begin = next + 1;
      from = bytes.indexOf(NEWLINE, from) + 1;
    }
    const end = text.indexOf("\n", begin);
    const to = end < 0 ? bytes.length : bytes.indexOf(NEWLINE, from) + 1;
    yield { from, to, line: text.slice(begin, end < 0 ? undefined : end) };
    if (end < 0) return;
    [begin, from] = [end + 1, to];
  }
}

/** Lines from byte `from` on that contain `text` (ignoring case), at most `limit`. */
export async function searchLog(
  core: Core,
  row: RunRow,
  stream: LogStream,
  text: string,
  from: number,
  limit: number,
  attempt?: number,
): Promise<LogMatches> {
  const wanted = lowered(text);
  const matches: LogMatches["matches"] = [];
  let offset = from;
  let size = 0;
  while (matches.length < limit && offset - from < SEARCH_BYTES) {
    const { bytes, ...chunk } = await readLines(core, row, stream, offset, attempt);
    size = chunk.size;
    if (chunk.to === chunk.from) return { matches, to: chunk.to, size, done: true };
    for (const { from: begin, to: end, line } of linesWith(wanted, bytes)) {
      matches.push({ offset: chunk.from + begin, line: line.slice(0, 2000) });
      if (matches.length === limit) return { matches, to: chunk.from + end, size, done: false };
    }
    offset = chunk.to;
  }
  return { matches, to: offset, size, done: false };
}

/**
 * Follows a log file; ids are "attempt:offset". A new attempt has a file of its own, announced by
 * `attempt`. Existing text is sent completely; of text that is appended later, lines beyond a rate
 * limit are omitted and counted.
 */
export async function* logLive(
  core: Core,
  runId: string,
  stream: LogStream,
  since: { attempt: number; offset: number },
  linesPerSecond: number,
  pollMs: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  let { attempt, offset } = since;
  const rate = new LineRate(linesPerSecond);
  let history: number | undefined;
  const createdAt = core.runs.get(runId)?.createdAt;
  while (!signal.aborted) {
    const row = core.runs.get(runId);
    // The id of a deleted run may be used again.
    if (row === undefined || row.createdAt !== createdAt) return;
    if (row.attempt !== attempt) {
      attempt = row.attempt;
      offset = 0;
      // A new attempt has begun: send what it has written so far as existing text, without the rate
      // limit.
      if (history !== undefined) history = 0;
      yield { event: "attempt", data: { attempt } };
    }
    // The new attempt has written nothing yet, and `logFile` still names the earlier attempt's
    // file.
    if (row.state === "INIT" && row.attempt > 1) {
      await waitFor(pollMs, signal);
      continue;
    }
    const { bytes, rest: _, ...where } = await readLines(core, row, stream, offset);
    history ??= where.size;
    if (where.size < offset) {
      // The file was truncated: its present text is new.
      offset = history = 0;
      continue;
    }
    if (where.to > where.from) {
      offset = where.to;
      const { show, suppressedLines } = where.from < history
        ? { show: bytes.length, suppressedLines: 0 }
        : rate.admit(bytes, performance.now() / 1000);
      const text = decoder.decode(bytes.subarray(0, show));
      yield {
        event: "log",
        id: `${attempt}:${offset}`,
        data: { ...where, text, suppressed_lines: suppressedLines },
      };
      continue;
    }
    await waitFor(pollMs, signal);
  }
}
