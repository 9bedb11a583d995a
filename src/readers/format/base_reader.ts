/** Shared by all readers: the position, the head of the file, and the loop over its records. */
import { messageOf } from "../../base/errors.ts";
import { crc32c } from "../../base/crc32c.ts";
import type {
  FormatName,
  FormatReader,
  FormatState,
  Problem,
  ReadOptions,
  ReadResult,
} from "./format_reader.ts";
import type { SourceRecord } from "./tracker_records.ts";

/** A longer record is skipped, which bounds a reader's memory. */
export const MAX_RECORD_BYTES = 64 << 20;
const HEAD_BYTES = 64;
const LF = 10;
const MAX_RECORDS = 10_000;

/** Where a reader puts its results. */
export interface Output {
  records: SourceRecord[];
  problems: Problem[];
  /** Nothing will be appended any more. */
  end: boolean;
  /** Set by a decoder that returns 0: number of bytes that it needs. */
  need: number;
  /** Set by a decoder that returns 0: the available bytes may still change. */
  wait: boolean;
}

/**
 * `decode` returns one of these to read the file from its beginning: after its next change, or at
 * once.
 */
export const READ_LATER = -1;
export const READ_AGAIN = -2;

function result({ records, problems, need }: Output, again: boolean): ReadResult {
  return { records, problems, need, again };
}

export abstract class BaseReader implements FormatReader {
  abstract readonly format: FormatName;
  #offset = 0;
  #head: [bytes: number, crc: number] = [0, 0];

  get offset(): number {
    return this.#offset;
  }

  get headBytes(): number {
    return this.#head[0];
  }

  isSame(head: Uint8Array): boolean {
    const [bytes, crc] = this.#head;
    return head.length >= bytes && crc32c(head, 0, bytes) === crc;
  }

  read(bytes: Uint8Array, options: ReadOptions = {}): ReadResult {
    const { end = false, maxRecords = MAX_RECORDS } = options;
    const out: Output = { records: [], problems: [], end, need: 1, wait: false };
    const start = this.#offset;
    let at = 0;
    while (at < bytes.length && out.records.length + out.problems.length < maxRecords) {
      out.need = 1;
      const used = this.#decoded(bytes, at, out);
      if (used < 0) {
        this.#offset = 0;
        this.#head = [0, 0];
        return result(out, used === READ_AGAIN);
      }
      if (used === 0) break;
      if (this.#head[0] === 0) {
        this.#setHead(bytes.subarray(at, at + (this.headOf?.(used) ?? Math.min(used, HEAD_BYTES))));
      }
      at += used;
      this.#offset = start + at;
      out.need = 1;
    }
    // The decoder left the first bytes alone, and no more will come.
    if (end && at === 0 && bytes.length > 0) {
      const detail = "the file ends within a record";
      out.problems.push({ what: "torn", at: this.#offset, bytes: bytes.length, detail });
    }
    return result(out, at > 0 && !out.wait);
  }

  /**
   * An error of one record costs this record only: reading goes on behind the next newline, or at
   * the end.
   */
  #decoded(bytes: Uint8Array, at: number, out: Output): number {
    const before = out.records.length;
    try {
      return this.decode(bytes, at, out);
    } catch (error) {
      out.records.length = before;
      const newline = bytes.indexOf(LF, at);
      const used = (newline < 0 ? bytes.length : newline + 1) - at;
      out.problems.push({
        what: "corrupt",
        at: this.#offset,
        bytes: used,
        detail: `not readable: ${messageOf(error)}`,
      });
      return used;
    }
  }

  #setHead(head: Uint8Array): void {
    this.#head = [head.length, crc32c(head)];
  }

  restart(): void {
    this.#offset = 0;
    this.#head = [0, 0];
    this.forget();
  }

  state(): FormatState {
    return { format: this.format, offset: this.#offset, head: this.#head, ...this.memory() };
  }

  protected restoreBase(state: FormatState): void {
    this.#offset = state.offset;
    this.#head = [...state.head];
  }

  /**
   * The position in the file of `bytes[at]`, in `decode`: `offset` is the position of the next byte
   * to decode.
   */
  protected get position(): number {
    return this.#offset;
  }

  /**
   * Decodes what begins at `at`, file position `position`.
   * @returns the number of bytes read; 0 if more are needed (`out.need`); READ_LATER; READ_AGAIN
   */
  protected abstract decode(bytes: Uint8Array, at: number, out: Output): number;
  /** How many of the file's first `used` bytes identify it; default 64. */
  protected headOf?(used: number): number;
  /** The reader's part of its state, as JSON. */
  protected abstract memory(): Record<string, unknown>;
  /** Drops state that depends on the file's earlier content. */
  protected abstract forget(): void;
}
