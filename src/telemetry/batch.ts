/**
 * The records between a proxy and the store. Steps travel as columns: one JSON.parse of arrays costs a third of one
 * parse per record, and a column that has only defaults is left out.
 */
import type { EpisodeRecord, StepColumns, StepRecord, WorkerEventRecord } from "../gen/records/record_types.ts";

export type { EpisodeRecord, StepColumns, StepRecord, WorkerEventRecord };

/** What a proxy read between two journal positions, in order within each kind. */
export interface IngestBatch {
  from: number;
  to: number;
  steps: StepColumns;
  episodes: EpisodeRecord[];
  events: WorkerEventRecord[];
  otherLines: number;
  malformedLines: number;
  /** Records that do not fit the run's telemetry schema, by "kind: rule". */
  violations: Record<string, number>;
}
