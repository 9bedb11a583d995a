/** What the registry keeps about a run. Times are Unix milliseconds. */
import type { BaseDir } from "../base/layout.ts";
import type { ProcessRef } from "../os/processes/identity.ts";
import type { Outcome, RunState } from "./lifecycle/lifecycle.ts";

export interface RunRow {
  runId: string;
  name: string;
  /** Hex SHA-256 of the canonical config. */
  digest: string;
  state: RunState;
  /** 1 for the first. */
  attempt: number;
  /** How many attempts the run may have (by `metadata.restart.max_attempts`, raised by a retry by hand). */
  maxAttempts: number;
  priority: number;
  tags: string[];
  /** What people have written about it: Markdown. */
  notes: string;
  baseDir: BaseDir;
  /** The config after injection of run id and paths, as JSON text (src/config). */
  configJson: string;
  gpusRequested: number;
  gpusMandatory: boolean;
  gpuSlots: number[];
  createdAt: number;
  updatedAt: number;
  /** Start of the current (or last) attempt. */
  startedAt: number | null;
  finishedAt: number | null;
  lastHeartbeatAt: number | null;
  /** When an INIT run may start at the earliest (restart back-off). */
  notBefore: number | null;
  outcome: Outcome | null;
  /** Why it failed, was cancelled or waits; the vocabulary is in docs/reference/operations.md. */
  reason: string | null;
  hint: string | null;
  exitCode: number | null;
  exitSignal: string | null;
  stderrTail: string[];
  /** Set durably before the first signal is sent, so that a restarted daemon finishes the cancellation. */
  cancelRequestedAt: number | null;
  cancelReason: string | null;
  /** A failure decided by the daemon (heartbeat, limit, stall …) while the group is still being killed. */
  faultRequested: string | null;
  pauseRequested: boolean;
  maxRateHz: number;
  proxy: ProcessRef | null;
  worker: ProcessRef | null;
  workerId: string;
  agentId: string;
  sessionToken: string | null;
  workerKind: string | null;
  protoVersion: string | null;
  schemaId: string | null;
  schemaVersion: number | null;
  supportsPause: boolean;
  supportsCheckpoint: boolean;
  /** Checkpoint handed to the next attempt. */
  resumeFrom: string | null;
  /** Where an engine has placed the attempt; null if it is not placed (yet), or runs on the daemon's own host. */
  placement: Placement | null;
  /** Columns that cannot be read (bit rot, manual changes); their fields have neutral values. */
  damaged: string[];
}

/** A run without its config, for filtering and sorting. */
export type RunOutline =
  & Pick<
    RunRow,
    | ("runId" | "name" | "state" | "outcome" | "reason" | "attempt" | "priority" | "tags")
    | ("createdAt" | "startedAt" | "finishedAt")
  >
  & {
    /** About the bytes of the whole run in a list. */
    bytes: number;
  };

/** Fields that change outside a transition. */
export type RunPatch = Partial<
  Omit<
    RunRow,
    | ("runId" | "digest" | "state" | "attempt" | "createdAt" | "updatedAt" | "outcome" | "gpuSlots" | "damaged")
    | "placement"
  >
>;

/**
 * - `intended`: committed before the engine is asked, so that a later daemon can search for the job by its name
 * - `queued`: the engine has the job in its queue
 * - `running`: the job has nodes
 * - `ended`: the engine has no process of the job left
 */
export type PlacementPhase = "intended" | "queued" | "running" | "ended";

/** An attempt's job at an engine such as Slurm. */
export interface Placement {
  runId: string;
  attempt: number;
  launcher: string;
  /** How often the attempt was given to the engine; each time has a name of its own. */
  tries: number;
  /** The job's name at the engine, by which it is found again. */
  name: string;
  /** The engine's id of the job; null until it is known. Engines use ids again: it means nothing without the name. */
  job: string | null;
  /** When the engine accepted it, by the engine's clock, Unix milliseconds. */
  submittedAt: number | null;
  phase: PlacementPhase;
  /** Why the engine keeps it in its queue, or why its end is doubtful; "": neither. */
  waitingFor: string;
  expectedStart: number | null;
  nodes: string[];
  /** As the worker sees them, such as "0,1" of CUDA_VISIBLE_DEVICES. */
  gpus: string[];
  /** How it ended, as stated by the engine; null: unknown. */
  end: string | null;
  requestedAt: number;
}

/** The fields of a run at its submission. */
export type NewRun = Pick<
  RunRow,
  | ("runId" | "name" | "digest" | "maxAttempts" | "priority" | "tags" | "baseDir" | "configJson")
  | ("gpusRequested" | "gpusMandatory" | "workerId" | "agentId")
>;

export interface TransitionRow {
  /** Over all runs, ascending, never reused. */
  seq: number;
  runId: string;
  from: RunState | null;
  to: RunState;
  event: string;
  reason: string | null;
  attempt: number;
  at: number;
}

/** An entry of the one event log (state changes, metrics, checkpoints, artifacts, failures). */
export interface EventRow {
  seq: number;
  at: number;
  runId: string;
  runName: string;
  kind: string;
  attempt: number;
  dataJson: string;
}

export interface EventFilter {
  runId?: string;
  /** Empty or absent: all. */
  kinds?: readonly string[];
}

export interface RunFilter {
  states?: readonly RunState[];
  nameContains?: string;
  tags?: readonly string[];
  submittedSince?: number;
}

export interface ArtifactRow {
  runId: string;
  /** Relative to the run's directory. */
  path: string;
  /** `checkpoint`, `video`, `tensorboard`, or the kind in the worker's `artifact` event. */
  kind: string;
  bytes: number;
  /** Hex; "" until it has been computed. */
  sha256: string;
  step: number | null;
  /** `window_id` of the worker's record: the window that shows a video. "" for none. */
  windowId: string;
  /** When the file was last changed. */
  at: number;
}
