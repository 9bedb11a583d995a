// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

/**
 * One step as every dialect is mapped to (docs/reference/telemetry.md). JSON texts are kept as the
 * worker wrote them.
 */
export interface StepRecord<Text = string> {
  episode: number;
  step: number;
  actionJson: Text;
  observationJson: Text;
  reward: number;
  terminated: boolean;
  truncated: boolean;
  tsNs: string;
  agentId: string;
  workerId: string;
  policyLabel: string;
  backend: string;
  renderHintJson: Text;
  renderPayloadJson: Text;
  frameRef: Text;
  payloadVersion: number;
  episodeSeed: number;
  infoJson: Text;
}

/** A real number may be the text "NaN", "Infinity" or "-Infinity": episodes travel as JSON. */
export interface EpisodeRecord {
  episode: number;
  totalReward: number | string;
  steps: number;
  terminated: boolean;
  truncated: boolean;
  tsNs: string;
  agentId: string;
  workerId: string;
  metadataJson: string;
}

/**
 * A lifecycle record of the worker (`run_started`, `heartbeat`, `checkpoint_saved`,
 * `artifact`, …).
 */
export interface WorkerEventRecord {
  kind: string;
  tsNs: string;
  dataJson: string;
}

export const EMPTY_STEP: Readonly<StepRecord> = {
  episode: 0,
  step: 0,
  actionJson: "",
  observationJson: "",
  reward: 0,
  terminated: false,
  truncated: false,
  tsNs: "",
  agentId: "",
  workerId: "",
  policyLabel: "",
  backend: "",
  renderHintJson: "",
  renderPayloadJson: "",
  frameRef: "",
  payloadVersion: 0,
  episodeSeed: 0,
  infoJson: "",
};

export const EMPTY_EPISODE: Readonly<EpisodeRecord> = {
  episode: 0,
  totalReward: 0,
  steps: 0,
  terminated: false,
  truncated: false,
  tsNs: "",
  agentId: "",
  workerId: "",
  metadataJson: "",
};

export const EMPTY_WORKER_EVENT: Readonly<WorkerEventRecord> = {
  kind: "",
  tsNs: "",
  dataJson: "",
};

/**
 * A stored step: its seq starts at 1 per run, contiguous, given in the transaction that stored it.
 */
export interface StoredStep extends StepRecord {
  seq: number;
  attempt: number;
}
export interface StoredEpisode extends EpisodeRecord {
  seq: number;
  attempt: number;
  totalReward: number;
}
export interface StoredWorkerEvent extends WorkerEventRecord {
  seq: number;
  attempt: number;
}
/** A point of a metric series; `seq` counts all metric points of the run. */
export interface StoredMetric {
  seq: number;
  name: string;
  value: number;
  step: number;
  tsMs: number;
}

/** The texts of a row of `sources`. */
export interface Source {
  agentId: string;
  workerId: string;
  policyLabel: string;
  backend: string;
}
export const NO_SOURCE: Readonly<Source> = { agentId: "", workerId: "", policyLabel: "", backend: "" };

/**
 * The columns that differ from their default somewhere in the batch; `n` rows. NaN and infinities
 * of real columns are the texts "NaN", "Infinity" and "-Infinity". Flags are 0 and 1. A label that
 * all rows share is one text.
 */
export interface StepColumns<Texts = string[]> {
  n: number;
  episode?: number[];
  step?: number[];
  actionJson?: Texts;
  observationJson?: Texts;
  reward?: (number | string)[];
  terminated?: number[];
  truncated?: number[];
  tsNs?: string[];
  agentId?: string[] | string;
  workerId?: string[] | string;
  policyLabel?: string[] | string;
  backend?: string[] | string;
  renderHintJson?: Texts;
  renderPayloadJson?: Texts;
  frameRef?: Texts;
  payloadVersion?: number[];
  episodeSeed?: number[];
  infoJson?: Texts;
}

/**
 * Rows of storable columns: arrays of exactly `n`, or undefined where every row has the default.
 */
export interface CleanSteps<Texts = string[]> {
  n: number;
  episode: number[] | undefined;
  step: number[] | undefined;
  actionJson: Texts | undefined;
  observationJson: Texts | undefined;
  reward: number[] | undefined;
  terminated: number[] | undefined;
  truncated: number[] | undefined;
  tsNs: string[];
  agentId: string[] | string;
  workerId: string[] | string;
  policyLabel: string[] | string;
  backend: string[] | string;
  renderHintJson: Texts | undefined;
  renderPayloadJson: Texts | undefined;
  frameRef: Texts | undefined;
  payloadVersion: number[] | undefined;
  episodeSeed: number[] | undefined;
  infoJson: Texts | undefined;
  /** Length of all texts, in UTF-16 units. */
  textLength: number;
  /** Values that had to be changed to be stored. */
  clamped: number;
}
