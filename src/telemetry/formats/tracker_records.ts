/**
 * What programs write of their training, whatever the file format: the records that every reader of a tracker's files gives.
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
