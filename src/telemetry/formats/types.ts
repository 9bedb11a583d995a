/**
 * What programs write of their training, whatever the file format: the records that every reader of this folder gives.
 *
 * Times are Unix seconds. Numbers are as stored: a float32 is widened to a double, NaN and infinities are kept. Integers
 * beyond 2^53 lose their last digits. `undefined` is "the file does not say".
 */

/** JSON and what Python puts beside it: NaN and infinities are numbers here. */
export type ParamValue = null | boolean | number | string | ParamValue[] | { [key: string]: ParamValue };

interface Placed {
  step: number | undefined;
  wallTime: number | undefined;
}

/** One point of a series. */
export interface ScalarRecord extends Placed {
  kind: "scalar";
  tag: string;
  value: number;
}

export interface TextRecord extends Placed {
  kind: "text";
  tag: string;
  text: string;
}

/** Hyperparameters, typed. Later records of a file add to earlier ones and win. */
export interface ParamsRecord {
  kind: "params";
  /** `hparams`: TensorBoard's plugin; `text_summary`: a Markdown table; `config`: W&B, RLlib. */
  origin: "hparams" | "text_summary" | "config";
  wallTime: number | undefined;
  values: { [name: string]: ParamValue };
  /** Names that are no longer set. */
  removed: string[];
}

/** A picture, a sound or a film: its bytes, or where the file is. */
export interface MediaRecord extends Placed {
  kind: "media";
  media: "image" | "audio" | "video" | "file";
  tag: string;
  /** Of several under one tag and step: which one, from 0. */
  index: number;
  /** MIME type by the content's first bytes or the program's word; "" when unknown. */
  type: string;
  width: number | undefined;
  height: number | undefined;
  bytes: Uint8Array | undefined;
  /** Below the directory that the format keeps its files in (W&B: `files/` beside the log). */
  path: string | undefined;
  caption: string;
}

/** Bucket i counts the values from `left[i]` to `right[i]`; without the empty ones at both ends. */
export interface HistogramRecord extends Placed {
  kind: "histogram";
  tag: string;
  left: number[];
  right: number[];
  count: number[];
  /** Of all values, where the program wrote them. */
  stats: { min: number; max: number; num: number; sum: number; sumSquares: number } | undefined;
}

/** An episode that ended. Null: not said. */
export interface EpisodeRecord extends Placed {
  kind: "episode";
  return: number | null;
  length: number | null;
  /** Seconds since the environment or the training began, as the program counts them. */
  time: number | null;
  /** Further numbers of the same line. */
  extra: { [name: string]: number };
}

/** The writer began anew at `step`: what it wrote before with this or a later step no longer counts. */
export interface RewindRecord extends Placed {
  kind: "rewind";
}

/** What the tracker knows of the run itself; only what a record says is set. */
export interface RunRecord {
  kind: "run";
  wallTime: number | undefined;
  id: string;
  name: string;
  project: string;
  group: string;
  tags: string[];
}

/** The tracker's word on how the run ended. Not its end itself: `add_hparams` says "success" with the first values. */
export interface StatusRecord {
  kind: "status";
  wallTime: number | undefined;
  status: "running" | "success" | "failure" | "unknown";
  exitCode: number | undefined;
}

/** Console output that the tracker kept. */
export interface OutputRecord {
  kind: "output";
  wallTime: number | undefined;
  stream: "stdout" | "stderr";
  text: string;
}

export type SourceRecord =
  | ScalarRecord
  | TextRecord
  | ParamsRecord
  | MediaRecord
  | HistogramRecord
  | EpisodeRecord
  | RewindRecord
  | RunRecord
  | StatusRecord
  | OutputRecord;

export interface Problem {
  /**
   * - `corrupt`: bytes that cannot be read; reading goes on behind them
   * - `too_large`: a record beyond `maxRecordBytes`; skipped
   * - `torn`: the file ended for good (`end`) within a record; its bytes are not consumed
   * - `replaced`: the file has other content than what was read from it before; it is read again from its beginning
   */
  what: "corrupt" | "too_large" | "torn" | "replaced";
  /** Position in the file. */
  at: number;
  bytes: number;
  detail: string;
}

export interface ReadOptions {
  /** The bytes reach the file's end, and nothing will be appended any more: what is incomplete now stays so. */
  end?: boolean;
  /** Stop behind what makes as many records and problems, or more: one row may give many. 10 000 unless set. */
  maxRecords?: number;
}

export interface ReadResult {
  records: SourceRecord[];
  problems: Problem[];
  /** The least number of bytes from the new `offset` on with which the next read can get further. */
  need: number;
  /** There is more to be had at once: read again from `offset`. Otherwise the file has to grow or to change first. */
  again: boolean;
}

export type FormatName = "tfevents" | "csv" | "jsonl" | "wandb";

/** A reader's position and memory as JSON: small, to be stored in the transaction that stores the records. */
export interface FormatState {
  format: FormatName;
  offset: number;
  /** Length and checksum of the beginning of the file, by which a rewritten file is noticed. */
  head: [bytes: number, crc: number];
  [key: string]: unknown;
}

/**
 * An incremental decoder of one growing file. It does no I/O and keeps no bytes: each `read` gets what the file holds
 * from `offset` on (as much of it as the caller likes, but at least `need`), and moves `offset` behind the last complete
 * record; to the beginning, where the file turns out to be written anew. `while (result.again)` reads what there is.
 *
 * Restored from `state()`, a reader goes on exactly: the same file gives the same records, wherever it was interrupted.
 */
export interface FormatReader {
  readonly format: FormatName;
  readonly offset: number;
  read(bytes: Uint8Array, options?: ReadOptions): ReadResult;
  state(): FormatState;
  /** How many of the file's first bytes `isSame` has to see; 0 before anything was read. */
  readonly headBytes: number;
  /**
   * Whether the file still begins as it did. Some programs rewrite a file in place (a new column): read the content,
   * then the head, ask, and only then use the content; when it is another head, call `restart`.
   */
  isSame(head: Uint8Array): boolean;
  /** Reads from the beginning again. A table skips the rows that it has given already; other formats repeat. */
  restart(): void;
}
