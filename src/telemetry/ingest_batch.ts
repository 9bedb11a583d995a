/**
 * The records between a proxy and the store. Steps travel as columns: one JSON.parse of arrays costs a third of one
 * parse per record, and a column that has only defaults is left out.
 */
import type { EpisodeRecord, StepColumns, StepRecord, WorkerEventRecord } from "../gen/records/record_types.ts";

import type { SealedSteps } from "./store/sealed_steps.ts";

export type { EpisodeRecord, StepColumns, StepRecord, WorkerEventRecord };

/** A file besides the journal that a proxy reads records from (docs/proxy.md). */
export interface SourceCursor {
  /** Names the file within its attempt. */
  name: string;
  /** Series of a name that another source has already are stored as `name@label`. */
  label: string;
  /** How many batches of it are stored. */
  serial: number;
  /** Where and how reading goes on, as the proxy wrote it. */
  state: string;
}

/** What a proxy read between two journal positions, in order within each kind. */
export interface IngestBatch {
  /** Of another source than the journal: `from` and `to` then count its batches, and this is stored with the records. */
  source?: Omit<SourceCursor, "serial">;
  from: number;
  to: number;
  steps: StepColumns | SealedSteps;
  episodes: EpisodeRecord[];
  events: WorkerEventRecord[];
  otherLines: number;
  malformedLines: number;
  /** Records that do not fit the run's telemetry schema, by "kind: rule". */
  violations: Record<string, number>;
}
