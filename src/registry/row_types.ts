/** What the registry keeps about a run. Times are Unix milliseconds. */
import type { OutlineColumn, RunRow } from "../runs/fields/run_types.ts";
import type { RunState } from "./lifecycle/lifecycle.ts";

export type { Placement, PlacementPhase, RunRow } from "../runs/fields/run_types.ts";

/** Of a run, what is read of very many runs, for filtering and sorting. */
export type RunOutline =
  & Pick<RunRow, OutlineColumn>
  & {
    /** About the bytes of the whole run in a list. */
    bytes: number;
  };

/** Fields that change outside a transition. */
export type RunPatch = Partial<
  Omit<
    RunRow,
    | (
      | "runId"
      | "digest"
      | "state"
      | "attempt"
      | "createdAt"
      | "updatedAt"
      | "outcome"
      | "gpuSlots"
      | "damaged"
    )
    | "placement"
  >
>;

/** The fields of a run at its submission. */
export type NewRun =
  & Pick<
    RunRow,
    | ("runId" | "name" | "digest" | "maxAttempts" | "priority" | "tags" | "baseDir" | "configJson")
    | ("gpusRequested" | "gpusMandatory" | "workerId" | "agentId" | "owner")
  >
  & Partial<Pick<RunRow, "gpuShare" | "gpuMemoryMb">>;

/** A run within a run. */
export type NewChild = NewRun & { parent: string; childKey: string };

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
  /** Only of runs of this owner. */
  owner?: string;
  /** Empty or absent: all. */
  kinds?: readonly string[];
}

export interface RunFilter {
  states?: readonly RunState[];
  nameContains?: string;
  tags?: readonly string[];
  submittedSince?: number;
  /** Runs within this run; absent: only runs that are within none. */
  within?: string | undefined;
  /**
   * Runs in the trash instead of those that are not there; without the runs that went with the run
   * that they are within.
   */
  deleted?: boolean;
  /** Only runs of this owner. */
  owner?: string | undefined;
}

/** Its file is there. */
export type NewArtifact = Omit<ArtifactRow, "deletedAt"> & Partial<ArtifactRow>;

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
  /** When the program's own file was seen to be gone; null: it is there, as far as is known. */
  deletedAt: number | null;
}

/** An attempt that ran on the daemon's own host. */
export interface RanAttempt extends Pick<RunRow, "runId" | "owner"> {
  gpusRequested: number;
  /** What it declared of each card; both null: whole cards. */
  gpuShare: number | null;
  gpuMemoryMb: number | null;
  from: number;
  /** Null while it runs. */
  to: number | null;
}
