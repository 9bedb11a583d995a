/** Runs, transitions, events, artifacts and GPU slots in registry.db. (Interface for now; the class takes its place.) */
import type { LifecycleEvent } from "../lifecycle/lifecycle.ts";
import type { ArtifactRow, EventRow, NewRun, RunFilter, RunPatch, RunRow, TransitionRow } from "./types.ts";

export interface Registry {
  /** INIT with its first transition and a "queued" event, in one transaction. @throws `already_exists`. */
  insert(run: NewRun): RunRow;
  get(runId: string): RunRow | undefined;
  /** @throws `not_found`. */
  require(runId: string): RunRow;
  /** By id, unique id prefix, unique name, or "@last". @throws `not_found` (with near names), `invalid_argument` (ambiguous, naming the matches). */
  resolve(ref: string): RunRow;
  /** Newest first. */
  byDigest(digest: string): RunRow[];
  /** Newest submitted first; `token` is the last run id of the page before. */
  list(filter: RunFilter, page: { limit: number; token?: string }): { runs: RunRow[]; nextToken: string | undefined };
  count(filter: RunFilter): number;
  countByState(): Record<string, number>;
  /** Runs that have not ended, oldest first. */
  live(): RunRow[];
  /**
   * The only writer of run state: applies the pure transition, the patch, the release of GPU slots (when the run ends or
   * returns to INIT), the transition's row and its "state" event in one transaction. An idempotent event writes nothing.
   * `unless` skips the event when it returns true for the row read inside the transaction.
   */
  apply(runId: string, event: LifecycleEvent, patch?: RunPatch): RunRow;
  update(runId: string, patch: RunPatch): RunRow;
  /** Cheap: last_heartbeat only, held in memory and written at most every 5 s per run. */
  touchHeartbeat(runId: string, at: number): void;

  /** Makes the host's slots these; slots held by a run stay until released. */
  setGpuSlots(slots: readonly number[]): void;
  gpuSlots(): { slot: number; runId: string | null }[];
  /** Gives the slots to the run, all or none. @throws `failed_precondition` when one is taken. */
  claimGpus(runId: string, slots: readonly number[]): RunRow;

  transitions(runId: string): TransitionRow[];
  transitionsSince(seq: number, limit: number): TransitionRow[];
  transitionHead(): number;
  waitTransitionsBeyond(seq: number, signal: AbortSignal): Promise<void>;

  appendEvent(runId: string, kind: string, data: Record<string, unknown>): EventRow;
  eventsSince(seq: number, options: { runId?: string; limit: number }): EventRow[];
  eventHead(): number;
  waitEventsBeyond(seq: number, signal: AbortSignal): Promise<void>;

  putArtifact(artifact: ArtifactRow): void;
  artifacts(runId: string): ArtifactRow[];

  /** Removes an ended run's rows. */
  delete(runId: string): void;
  close(): void;
}
