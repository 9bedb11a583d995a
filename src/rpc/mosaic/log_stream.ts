/**
 * StreamLogs: a run's log file from an offset, or its last lines, and what is appended. The file
 * belongs to one attempt: if the run is attempted again, a follower stays with its file until that
 * attempt is over.
 */
import type { LogChunkSchema, LogsRequest } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { LineRate } from "../../journal/line_rate.ts";
import type { Caller, Outgoing } from "../call/handlers.ts";
import { turn } from "../call/turns.ts";
import { pause } from "../../wire/http/waiting.ts";
import type { LogFile } from "../../journal/packed_log.ts";

const CHUNK_BYTES = 64 * 1024;
const POLL_MS = 200;
const NEWLINE = 10;

/** Offset at which the last `lines` lines of the file begin. */
export function tailOffset(file: Pick<LogFile, "readSync">, size: number, lines: number): number {
  const buffer = new Uint8Array(CHUNK_BYTES);
  let end = size;
  // A newline at the end closes the last line and does not begin another.
  let wanted = lines + 1;
  let first = true;
  while (end > 0) {
    const start = Math.max(0, end - buffer.length);
    const n = file.readSync(start, buffer.subarray(0, end - start));
    for (let i = n - 1; i >= 0; i--) {
      if (buffer[i] !== NEWLINE) {
        // An unfinished last line counts as one.
        if (first) wanted--;
        first = false;
        continue;
      }
      first = false;
      if (--wanted === 0) return start + i + 1;
    }
    end = start;
  }
  return 0;
}

/**
 * @param linesPerSecond limit on appended lines while somebody follows; further lines are counted
 * and only in the file
 */
export async function streamLogs(
  core: Core,
  linesPerSecond: number,
  request: LogsRequest,
  out: Outgoing<typeof LogChunkSchema>,
  caller: Caller,
): Promise<void> {
  const row = core.runs.resolve(request.run);
  if (request.stream !== "" && request.stream !== "stdout" && request.stream !== "stderr") {
    throw new MosaicError(
      "invalid_argument",
      `stream is "${request.stream}": give "stdout" or "stderr"`,
    );
  }
  const ranks = Math.max(1, core.ranks(row).length);
  if (request.rank >= ranks) {
    throw new MosaicError(
      "invalid_argument",
      `rank is ${request.rank}: run ${row.runId} has ${
        ranks === 1 ? "one rank, 0" : `ranks 0 to ${ranks - 1}`
      }`,
    );
  }
  caller.follows(row.runId);
  const { rank } = request;
  const attempt = request.attempt || row.attempt;
  const of = request.attempt === 0 ? { rank } : { rank, attempt };
  const open = () => core.openLog(row, request.stream === "stderr" ? "stderr" : "stdout", of);
  /** The attempt is over when the run has ended or has begun a later attempt. */
  const over = () => {
    const now = core.runs.get(row.runId);
    if (now === undefined || isEnded(now.state)) return true;
    // A deleted run's id may be used again.
    return now.attempt !== attempt || now.createdAt !== row.createdAt;
  };

  let file = open();
  while (file === undefined) {
    // The file may still appear: nothing is written before the worker starts.
    if (!request.follow || over() || caller.signal.aborted) return;
    await pause(POLL_MS, caller.signal);
    file = open();
  }
  const closed = core.activity.subscribers.opened("grpc", "logs");
  try {
    const { size } = file;
    const requested = request.tailLines > 0
      ? tailOffset(file, size, request.tailLines)
      : Math.min(Number(request.sinceOffset), size);
    const start = Math.max(requested, file.begin());
    const rate = new LineRate(linesPerSecond);
    await follow(file, start, request.follow, rate, over, out, caller);
  } finally {
    closed();
    file.close();
  }
}

async function follow(
  file: LogFile,
  start: number,
  live: boolean,
  rate: LineRate,
  over: () => boolean,
  out: Outgoing<typeof LogChunkSchema>,
  caller: Caller,
): Promise<void> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  let offset = start;
  /** Existing content is sent completely; the rate limits what is appended afterwards. */
  const history = live ? file.size : Infinity;
  let ending = false;
  while (!caller.signal.aborted) {
    const n = file.readSync(offset, buffer);
    if (n > 0) {
      const bytes = buffer.slice(0, n);
      const begin = offset;
      offset += n;
      const { show, suppressedLines } = begin < history
        ? { show: n, suppressedLines: 0 }
        : rate.admit(bytes, performance.now() / 1000);
      await out.send({
        text: bytes.subarray(0, show),
        nextOffset: BigInt(offset),
        suppressedLines: BigInt(suppressedLines),
      });
      await turn();
      continue;
    }
    if (!live || ending) return;
    // The file was truncated: its content is new.
    if (file.size < offset) offset = 0;
    // Once more after the end, to read what the worker wrote last.
    ending = over();
    if (!ending) await pause(POLL_MS, caller.signal);
  }
}
