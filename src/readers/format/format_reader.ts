/**
 * What a reader of a file format is, and what it gives: src/readers/format/base_reader.ts has what
 * all of them share.
 */
import type { SourceRecord } from "./tracker_records.ts";

export interface Problem {
  /**
   * - `corrupt`: bytes that cannot be read; reading goes on behind them
   * - `too_large`: a record beyond `maxRecordBytes`; skipped
   * - `torn`: the file ended for good (`end`) within a record; its bytes are not consumed
   * - `no_form`: content that is intact, but has another form than this reader's
   * - `no_step`: records whose step is there, but is no whole number from 0 on
   * - `no_name`: points whose name is too long for a series
   * - `replaced`: the file has other content than what was read from it before; it is read again
   *   from its beginning
   */
  what: "corrupt" | "too_large" | "torn" | "no_form" | "no_step" | "no_name" | "replaced";
  /** Position in the file. */
  at: number;
  bytes: number;
  detail: string;
}

export interface ReadOptions {
  /**
   * The bytes reach the file's end, and nothing will be appended any more: what is incomplete now
   * stays so.
   */
  end?: boolean;
  /**
   * Stop behind what makes as many records and problems, or more: one row may give many. 10 000
   * unless set.
   */
  maxRecords?: number;
}

export interface ReadResult {
  records: SourceRecord[];
  problems: Problem[];
  /**
   * The least number of bytes from the new `offset` on with which the next read can get further.
   */
  need: number;
  /**
   * There is more to be had at once: read again from `offset`. Otherwise the file has to grow or to
   * change first.
   */
  again: boolean;
}

/** A reader's name, as src/readers/formats.ts lists them; also in stored states. */
export type FormatName = string;

/**
 * A reader's position and memory as JSON: small, to be stored in the transaction that stores the
 * records.
 */
export interface FormatState {
  format: FormatName;
  offset: number;
  /** Length and checksum of the beginning of the file, by which a rewritten file is noticed. */
  head: [bytes: number, crc: number];
  [key: string]: unknown;
}

/**
 * An incremental decoder of one growing file. It does no I/O and keeps no bytes: each `read` gets
 * what the file holds from `offset` on (as much of it as the caller likes, but at least `need`),
 * and moves `offset` behind the last complete record; to the beginning, where the file turns out to
 * be written anew. `while (result.again)` reads what there is.
 *
 * Restored from `state()`, a reader goes on exactly: the same file gives the same records, wherever
 * it was interrupted.
 */
export interface FormatReader {
  readonly format: FormatName;
  readonly offset: number;
  read(bytes: Uint8Array, options?: ReadOptions): ReadResult;
  state(): FormatState;
  /** How many of the file's first bytes `isSame` has to see; 0 before anything was read. */
  readonly headBytes: number;
  /**
   * Whether the file still begins as it did. Some programs rewrite a file in place (a new column):
   * read the content, then the head, ask, and only then use the content; when it is another head,
   * call `restart`.
   */
  isSame(head: Uint8Array): boolean;
  /**
   * Reads from the beginning again. A table skips the rows that it has given already; other formats
   * repeat.
   */
  restart(): void;
  /** After `restart`, what was given already is skipped. */
  readonly skipsKnown?: boolean;
  /** Before the first read: the states of other files of the same writer, which may have the same. */
  follow?(states: readonly FormatState[]): void;
}
