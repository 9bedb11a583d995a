/**
 * The records that a proxy delivers to the store. Steps travel as columns: one JSON.parse of arrays
 * costs a third of one parse per record, and a column that has only defaults is omitted.
 */
import type { EpisodeRecord, StepColumns, WorkerEventRecord } from "../gen/records/record_types.ts";

import type { SealedSteps } from "./sealed_steps.ts";

/** A file besides the journal that a proxy reads records from (docs/reference/proxy.md). */
export interface SourceCursor {
  /** Identifies the file within its attempt. */
  name: string;
  /** If another source already has a series of a name, this file's is stored as `name@label`. */
  label: string;
  /** Number of its stored batches. */
  serial: number;
  /** The reader's state, in a form that only the proxy reads. */
  state: string;
}

/** What a proxy has read between two journal positions, in order within each kind. */
export interface IngestBatch {
  /**
   * For another source than the journal: `from` and `to` then count its batches, and this is stored
   * with the records.
   */
  source?: Omit<SourceCursor, "serial">;
  /**
   * The run within this run to which the source's records belong; the source and its problems stay
   * with this run.
   */
  within?: string;
  from: number;
  to: number;
  steps: StepColumns | SealedSteps;
  episodes: EpisodeRecord[];
  events: WorkerEventRecord[];
  otherLines: number;
  malformedLines: number;
  /** Records that violate the run's telemetry schema, by "kind: rule". */
  violations: Record<string, number>;
}
