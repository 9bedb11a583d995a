/**
 * When a worker wrote to standard error, beside its standard output: so that both are read as one
 * log, in the order in which they were written (merged_log.ts). A line of the file is
 * "MILLISECONDS STDOUT STDERR": by then, so many bytes of whole lines were in either file.
 * Nothing is written while standard error is silent, so the order of output alone costs nothing.
 */
import type { RunFiles } from "../base/layout.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { infoOf, openLogInProxy, readRecordInProxy } from "../os/files/untrusted.ts";
import { openForAppending } from "../os/files/untrusted_changes.ts";

/** At first; twice as long after each so many lines, so that years of progress bars fit. */
const LEAST_MS = 100;
const LINES_PER_INTERVAL = 1024;
const MOST_LINES = 20 * LINES_PER_INTERVAL;
/** A line that is longer is noted when it has ended and its end is this near. */
const LOOKED_AT = 16 * 1024;
const NEWLINE = 10;

export interface LogTime {
  at: number;
  stdout: number;
  stderr: number;
}

/** Lines that ascend; others, which mosaic has not written, are left out. */
export function logTimesOf(text: string): LogTime[] {
  const times: LogTime[] = [];
  let before: LogTime = { at: 0, stdout: 0, stderr: 0 };
  for (const [, at, stdout, stderr] of text.matchAll(/^(\d{1,15}) (\d{1,15}) (\d{1,15})$/gm)) {
    const next = { at: Number(at), stdout: Number(stdout), stderr: Number(stderr) };
    if (next.stdout < before.stdout || next.stderr < before.stderr) continue;
    times.push(before = next);
  }
  return times;
}

/** The proxy's side. */
export class LogTimes {
  readonly #files: RunFiles;
  readonly #attempt: number;
  readonly #log: Logger;
  #lines: number | undefined;
  #lookedAt = 0;
  #seen = 0;
  #noted: LogTime = { at: 0, stdout: 0, stderr: 0 };

  constructor(files: RunFiles, attempt: number, log: Logger) {
    [this.#files, this.#attempt, this.#log] = [files, attempt, log];
  }

  /** Notes what standard error has by now. @param last nothing follows */
  look(now: number, last = false): void {
    const doublings = Math.floor((this.#lines ?? 0) / LINES_PER_INTERVAL);
    if (!last && now - this.#lookedAt < LEAST_MS * 2 ** doublings) return;
    this.#lookedAt = now;
    try {
      this.#note(now);
    } catch (error) {
      this.#lines = MOST_LINES;
      this.#log.warn({ error: messageOf(error) }, "the order of output and errors is not noted");
    }
  }

  #note(at: number): void {
    const [out, err] = [this.#files.stdout(this.#attempt), this.#files.stderr(this.#attempt)];
    const size = infoOf(err)?.size ?? 0;
    if (size === this.#seen) return;
    this.#seen = size;
    const path = this.#files.logTimes(this.#attempt);
    if (this.#lines === undefined) {
      // Of the proxy before this one.
      const before = logTimesOf(readRecordInProxy(path) ?? "");
      this.#lines = before.length;
      this.#noted = before.at(-1) ?? this.#noted;
    }
    // Standard error first: what it answers to is then in the output.
    const stderr = endOfLines(err) ?? this.#noted.stderr;
    if (stderr <= this.#noted.stderr || this.#lines >= MOST_LINES) return;
    const stdout = Math.max(endOfLines(out) ?? 0, this.#noted.stdout);
    using file = openForAppending(path);
    file.writeSync(new TextEncoder().encode(`${at} ${stdout} ${stderr}\n`));
    this.#noted = { at, stdout, stderr };
    this.#lines++;
  }
}

/** Where the last whole line ends; undefined if that is not near the file's end. */
function endOfLines(path: string): number | undefined {
  using file = openLogInProxy(path);
  if (file === undefined) return undefined;
  const { size } = file.statSync();
  const from = Math.max(0, size - LOOKED_AT);
  file.seekSync(from, Deno.SeekMode.Start);
  const bytes = new Uint8Array(LOOKED_AT);
  const end = bytes.subarray(0, file.readSync(bytes) ?? 0).lastIndexOf(NEWLINE) + 1;
  return end === 0 ? undefined : from + end;
}
