/**
 * What programs write of their training, whatever the file format: the records that every reader of
 * a tracker's files gives.
 *
 * Times are Unix seconds. Numbers are as stored: a float32 is widened to a double, NaN and
 * infinities are kept. Integers beyond 2^53 lose their last digits. `undefined`: the file does not
 * say.
 */

/** JSON plus Python's additions: NaN and infinities are numbers here. */
export type ParamValue = null | boolean | number | string | ParamValue[] | {
  [key: string]: ParamValue;
};

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

/** Hyperparameters, typed. Later records of a file add to earlier ones and override them. */
export interface ParamsRecord {
  kind: "params";
  /** `hparams`: TensorBoard's plugin; `text_summary`: a Markdown table; `config`: W&B, RLlib. */
  origin: "hparams" | "text_summary" | "config";
  wallTime: number | undefined;
  values: { [name: string]: ParamValue };
  /** Names that are removed. */
  removed: string[];
}

/** A picture, a sound or a film: its bytes, or the path of its file. */
export interface MediaRecord extends Placed {
  kind: "media";
  media: "image" | "audio" | "video" | "table" | "file";
  tag: string;
  /** Its index among several with one tag and step, from 0. */
  index: number;
  /** MIME type by the content's first bytes, or as stated by the program; "" if unknown. */
  type: string;
  width: number | undefined;
  height: number | undefined;
  bytes: Uint8Array | undefined;
  /** Below the directory where the format keeps its files (W&B: `files/` beside the log). */
  path: string | undefined;
  caption: string;
}

/** Bucket i counts the values from `left[i]` to `right[i]`; without empty buckets at both ends. */
export interface HistogramRecord extends Placed {
  kind: "histogram";
  tag: string;
  left: number[];
  right: number[];
  count: number[];
  /** Statistics of all values, if the program wrote them. */
  stats: { min: number; max: number; num: number; sum: number; sumSquares: number } | undefined;
}

/** An episode that ended. Null: not stated. */
export interface EpisodeRecord extends Placed {
  kind: "episode";
  return: number | null;
  length: number | null;
  /** Seconds since the environment or the training began, as stated by the program. */
  time: number | null;
  /** Further numbers of the same line. */
  extra: { [name: string]: number };
}

/**
 * The writer began again at `step`: its earlier records with this or a later step no longer count.
 */
export interface RewindRecord extends Placed {
  kind: "rewind";
}

/** The tracker's information about the run; only fields that a record states are set. */
export interface RunRecord {
  kind: "run";
  wallTime: number | undefined;
  id: string;
  name: string;
  project: string;
  group: string;
  tags: string[];
}

/**
 * The tracker's statement how the run ended. Not the end itself: `add_hparams` writes "success"
 * with the first values.
 */
export interface StatusRecord {
  kind: "status";
  wallTime: number | undefined;
  status: "running" | "success" | "failure" | "unknown";
  exitCode: number | undefined;
}

/** Console output that the tracker stored. */
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
  | OutputRecord
  | TrialRecord
  | ProgressRecord;

/** How far the program is, 0 to 1; null: it does not say any more. */
export interface ProgressRecord {
  kind: "progress";
  wallTime: number | undefined;
  part: number | null;
}

/** A trial of a study has ended. */
export interface TrialRecord {
  kind: "trial";
  wallTime: number | undefined;
  trial: {
    number: number;
    state: string;
    values: number[];
    parameters: { [key: string]: ParamValue };
  };
}
