/** A sweep as JSON: of `mosaic sweep show`, of the page and of the API. */
import type { Spread } from "../../telemetry/series/groups.ts";
import type { StopRule, SweepSpec, Value } from "../spec.ts";

export type Parameters = Record<string, Value>;

/** In the JSON of `mosaic sweep show` and of the page. Times are RFC 3339. */
export interface TrialJson {
  trial: number;
  run_id: string | null;
  /** A run's state in lower case, `pruned`, `refused` or `deleted`. */
  state: string;
  parameters: Parameters;
  /** The metric's newest value. */
  value: number | null;
  steps: number;
  seconds: number;
  started_at: string | null;
  finished_at: string | null;
  /**
   * By which parameters are judged (`judged_at`); null: it has no such value, or one that is not
   * comparable.
   */
  judged: number | null;
  reason: string | null;
}

/** All trials whose parameters are equal but for the seed. */
export interface PointJson {
  parameters: Parameters;
  trials: number;
  pruned: number;
  failed: number;
  /** Number of values: of trials that succeeded or live. */
  values: number;
  mean: number | null;
  /** 95 % confidence of the mean; null with fewer than two values. */
  low: number | null;
  high: number | null;
}

/** The best point, with what a person needs to repeat and to report it. */
export interface WinnerJson extends PointJson {
  /** The first of its trials, and its command line. */
  trial: number;
  run_id: string;
  command: string;
  /**
   * Interquartile mean with 95 % of the bootstrap; null with fewer than four values, which have no
   * middle half.
   */
  iqm: Spread | null;
  /** The next best point. */
  second: PointJson | null;
}

export interface SweepJson {
  sweep_id: string;
  name: string;
  state: string;
  created_at: string;
  /** How many trials there will be, how many are made, and of these how many are in which state. */
  total: number;
  made: number;
  states: Record<string, number>;
  parameters: string[];
  /** Those of them that are seeds. */
  seeds: string[];
  max_parallel: number | null;
  budget: SweepSpec["budget"];
  metric: NonNullable<SweepSpec["metric"]> | null;
  stop: StopRule | null;
  /**
   * Why no further trial can be made at the moment, such as a full disk; null: nothing is known.
   */
  waiting_for: string | null;
  /** The rest is not in lists. */
  detail?: {
    spent: { seconds: number; steps: number };
    best:
      | { trial: number; run_id: string; value: number; parameters: Parameters; command: string }
      | null;
    /** The best mean, among the points with the most values. */
    winner: WinnerJson | null;
    /** If no trial has a value of the metric: what the newest trial that reports any reports. */
    reported: string[];
    /**
     * For a paper or a message: the estimate with its interval, the number of trials, what was
     * discarded.
     */
    statement: string;
    /** Seeds to go on with, such as `4..6`; null: none is known. */
    next_seeds: string | null;
    /**
     * The first rung, in the unit of the rule, at which `judged` compares trials; null: by their
     * values.
     */
    judged_at: number | null;
    points: PointJson[];
    /** Newest first. */
    trials: TrialJson[];
    best_so_far: { at: string; trial: number; value: number }[];
    /**
     * Of `stop: optimizer`: values at rungs, in the order in which they came. `waits`: nobody has
     * decided about it.
     */
    reports?: { trial: number; rung: number; step: number; value: number | null; waits: boolean }[];
    stopped: {
      trial: number;
      run_id: string;
      rung: number;
      step: number;
      value: number | null;
      reason: string;
      at: string;
    }[];
    /** An estimate: what the stopped trials would still have taken at their own pace. */
    saved: { trials: number; steps: number; seconds: number };
  };
}
