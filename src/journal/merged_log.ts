/**
 * Standard output and standard error of a worker as one log, in the order in which they were
 * written, as far as that was noted (log_times.ts): parts of either, whose bytes have positions of
 * their own. Positions stay while the files grow.
 */
import type { LogTime } from "./log_times.ts";
import type { LogFile } from "./packed_log.ts";

export type LogSource = Pick<LogFile, "size" | "begin" | "read">;
interface Part {
  stream: "stdout" | "stderr";
  /** Position in the merged log. */
  from: number;
  /** Position in the stream's own log. */
  offset: number;
  length: number;
  /** Unix milliseconds by which it was written; undefined: not noted. */
  at: number | undefined;
}

export class MergedLog implements Disposable {
  readonly #parts: Part[] = [];
  readonly #logs: Record<"stdout" | "stderr", (LogSource & Disposable) | undefined>;
  readonly size: number;
  /** Of standard error, not in this log: its order is not known before the next look. */
  readonly pending: number;

  /** @param ended nothing more will be noted: what is left follows, standard error last */
  constructor(
    stdout: (LogSource & Disposable) | undefined,
    stderr: (LogSource & Disposable) | undefined,
    times: readonly LogTime[],
    ended: boolean,
  ) {
    this.#logs = { stdout, stderr };
    const sizes = { stdout: stdout?.size ?? 0, stderr: stderr?.size ?? 0 };
    const reached = { stdout: stdout?.begin() ?? 0, stderr: stderr?.begin() ?? 0 };
    let position = 0;
    const add = (stream: "stdout" | "stderr", to: number, at: number | undefined) => {
      // A file may be shorter than it was.
      const length = Math.min(to, sizes[stream]) - reached[stream];
      if (length <= 0) return;
      this.#parts.push({ stream, from: position, offset: reached[stream], length, at });
      position += length;
      reached[stream] += length;
    };
    for (const { at, stdout, stderr } of times) {
      add("stdout", stdout, at);
      add("stderr", stderr, at);
    }
    add("stdout", sizes.stdout, undefined);
    if (ended) add("stderr", sizes.stderr, undefined);
    this.size = position;
    this.pending = sizes.stderr - reached.stderr;
  }

  begin(): number {
    return 0;
  }

  /** The parts that hold bytes between two positions. */
  parts(from: number, to: number): readonly Part[] {
    let [low, high] = [0, this.#parts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const part = this.#parts[middle]!;
      if (part.from + part.length <= from) low = middle + 1;
      else high = middle;
    }
    let end = low;
    while (end < this.#parts.length && this.#parts[end]!.from < to) end++;
    return this.#parts.slice(low, end);
  }

  async read(position: number, into: Uint8Array): Promise<number> {
    let filled = 0;
    for (const part of this.parts(position, position + into.length)) {
      const skip = position + filled - part.from;
      const want = into.subarray(
        filled,
        filled + Math.min(part.length - skip, into.length - filled),
      );
      const got = await this.#logs[part.stream]!.read(part.offset + skip, want);
      filled += got;
      if (got < want.length) break;
    }
    return filled;
  }

  /** The end of standard error that is not in this log: a progress bar, an unfinished line. */
  async rest(most: number): Promise<Uint8Array> {
    const log = this.#logs.stderr;
    const bytes = new Uint8Array(Math.min(most, this.pending));
    if (log === undefined || bytes.length === 0) return new Uint8Array();
    return bytes.subarray(0, await log.read(log.size - bytes.length, bytes));
  }

  [Symbol.dispose](): void {
    this.#logs.stdout?.[Symbol.dispose]();
    this.#logs.stderr?.[Symbol.dispose]();
  }
}
