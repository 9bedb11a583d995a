/**
 * The records between a proxy and the store. Steps travel as columns: one JSON.parse of arrays costs a third of one
 * parse per record, and a column that has only defaults is left out.
 */

/** One step as every dialect is mapped to (docs/telemetry.md). JSON texts are kept as the worker wrote them. */
export interface StepRecord {
  episode: number;
  step: number;
  reward: number;
  terminated: boolean;
  truncated: boolean;
  /** Unix nanoseconds as decimal text; "" when the worker gave no time. */
  tsNs: string;
  agentId: string;
  workerId: string;
  policyLabel: string;
  backend: string;
  actionJson: string;
  observationJson: string;
  renderHintJson: string;
  renderPayloadJson: string;
  frameRef: string;
  payloadVersion: number;
  episodeSeed: number;
  /** JSON object of the worker's further fields; "" when there are none. */
  infoJson: string;
}

/** The columns that differ from their default somewhere in the batch; `n` rows. NaN and infinities in `reward` are
 * the texts "NaN", "Infinity" and "-Infinity". Booleans are 0 and 1. */
export interface StepColumns {
  n: number;
  episode?: number[];
  step?: number[];
  reward?: (number | string)[];
  terminated?: number[];
  truncated?: number[];
  tsNs?: string[];
  agentId?: string[] | string;
  workerId?: string[] | string;
  policyLabel?: string[] | string;
  backend?: string[] | string;
  actionJson?: string[];
  observationJson?: string[];
  renderHintJson?: string[];
  renderPayloadJson?: string[];
  frameRef?: string[];
  payloadVersion?: number[];
  episodeSeed?: number[];
  infoJson?: string[];
}

export interface EpisodeRecord {
  episode: number;
  /** May be non-finite: then "NaN", "Infinity" or "-Infinity" on the wire. */
  totalReward: number | string;
  steps: number;
  terminated: boolean;
  truncated: boolean;
  metadataJson: string;
  tsNs: string;
  agentId: string;
  workerId: string;
}

/** A lifecycle record of the worker (`run_started`, `heartbeat`, `checkpoint_saved`, `artifact`, …). */
export interface WorkerEventRecord {
  kind: string;
  dataJson: string;
  tsNs: string;
}

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
