/** What the telemetry log returns: stored records, counters, summaries and buckets of series. */
import type { Parameter } from "./parameters.ts";
import type {
  StoredEpisode,
  StoredMetric,
  StoredStep,
  StoredWorkerEvent,
  WorkerEventRecord,
} from "../gen/records/record_types.ts";

export interface StoredOf {
  steps: StoredStep;
  episodes: StoredEpisode;
  events: StoredWorkerEvent;
  metrics: StoredMetric;
}

export interface RunTelemetry {
  steps: number;
  episodes: number;
  events: number;
  metrics: number;
  otherLines: number;
  malformedLines: number;
  violations: Record<string, number>;
  /** Attempt and byte offset up to which its journal is stored. */
  attempt: number;
  journalPosition: number;
  meanReward100: number | null;
  lastRecordAt: number | null;
  /** The highest step of a metric; 0: none. */
  toldStep: number;
  /**
   * The last value of the metric that is most certainly the reward of episodes; null if there is
   * none.
   */
  reportedReward: ReportedReward | null;
}

export interface ReportedReward {
  /** Name of the metric. */
  name: string;
  value: number;
}

export type IngestResult =
  | {
    type: "stored";
    position: number;
    steps: number;
    episodes: number;
    events: WorkerEventRecord[];
    /** Seq of the last of `events`. */
    lastEvent: number;
  }
  /** Everything up to `to` was stored before (a repeated delivery). */
  | { type: "duplicate"; position: number }
  /**
   * The batch does not begin where the stored journal ends: the proxy must go back to `position`.
   */
  | { type: "gap"; position: number };

/** Names of a bucket's values in JSON, CSV and the page's frames, in their order there. */
export const BUCKET_COLUMNS = [
  "first_x",
  "last_x",
  "min",
  "max",
  "mean",
  "last",
  "count",
  "at",
  "step",
  "attempt",
  "overwritten",
] as const;

export interface SeriesBucketRow {
  firstX: number;
  lastX: number;
  min: number;
  max: number;
  mean: number;
  last: number;
  count: number;
  atMs: number;
  /**
   * The worker's step at the bucket's last point. For other series than metrics: null, or their
   * position if there were several attempts.
   */
  step: number | null;
  /** Null if there was one attempt. */
  attempt: number | null;
  /**
   * A later attempt wrote these positions again. All points of a bucket are overwritten, or none;
   * they belong to one attempt.
   */
  overwritten: boolean;
  /** The records of these positions are missing or damaged: there is no value. */
  damaged: boolean;
}

/**
 * Over finite values only; null if there are none, and steps also if an earlier version did not
 * store them.
 */
export interface SeriesSummary {
  name: string;
  points: number;
  /** How many points are NaN or infinite. */
  nonFinite: number;
  last: number | null;
  min: number | null;
  max: number | null;
  mean: number | null;
  /**
   * The worker's step at the first minimum and the first maximum; for reward and episodes their
   * seq.
   */
  minStep: number | null;
  maxStep: number | null;
  /**
   * Where its newest points come from: a tracker's name, a file's or a directory's; "": what the
   * program printed.
   */
  label: string;
  /** The series with the same points, more exactly; null: it is no copy. */
  copyOf: string | null;
}

/** A parameter, and the seq of its event. */
export type ReportedParameter = Parameter & { seq: number };
