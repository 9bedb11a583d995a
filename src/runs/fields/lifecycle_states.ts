/**
 * The states of a run, and how one ends. What moves a run between them:
 * src/registry/lifecycle/lifecycle.ts.
 */

/**
 * - `INIT`: submitted (or to be attempted again), waiting to be started
 * - `HANDSHAKE`: its proxy was started and has not registered yet
 * - `READY`: registered; the worker has not printed a record yet
 * - `EXECUTING`: telemetry or a lifecycle event has arrived
 * - `PAUSED`: held by a person or by the backpressure policy
 * - `FAULTED`: this attempt failed; final unless attempts are left or somebody retries it
 * - `TERMINATED`: the worker ended with exit code 0
 * - `CANCELLED`: somebody cancelled it and its process group is gone
 */
export const RUN_STATES = [
  "INIT",
  "HANDSHAKE",
  "READY",
  "EXECUTING",
  "PAUSED",
  "FAULTED",
  "TERMINATED",
  "CANCELLED",
] as const;
export type RunState = typeof RUN_STATES[number];

export const ENDED_STATES: readonly RunState[] = ["FAULTED", "TERMINATED", "CANCELLED"];
export const LIVE_STATES: readonly RunState[] = RUN_STATES.filter((s) => !ENDED_STATES.includes(s));
/** States in which a proxy and worker may exist. */
export const RUNNING_STATES: readonly RunState[] = ["HANDSHAKE", "READY", "EXECUTING", "PAUSED"];

export function isEnded(state: RunState): boolean {
  return ENDED_STATES.includes(state);
}

/** Reason of a run that early stopping has ended. */
export const PRUNED = "pruned";

/** A run's state as it is shown: a stop by early stopping is no cancellation. */
export const shownState = (
  { state, reason }: { state: RunState; reason: string | null },
): RunState | "PRUNED" => state === "CANCELLED" && reason === PRUNED ? "PRUNED" : state;

/**
 * Words for people. In JSON, CSV and the API a state has its own name; filters take both. A trial
 * of a sweep may be what no run is.
 */
const STATE_WORDS: Record<RunState | "PRUNED" | "REFUSED" | "DELETED", string> = {
  INIT: "Queued",
  HANDSHAKE: "Starting",
  READY: "Ready",
  EXECUTING: "Running",
  PAUSED: "Paused",
  FAULTED: "Failed",
  TERMINATED: "Succeeded",
  CANCELLED: "Cancelled",
  PRUNED: "Pruned",
  REFUSED: "Refused",
  DELETED: "Deleted",
};
export const stateWord = (state: string): string => STATE_WORDS[state as RunState] ?? state;

/** "Failed: exit_code_1"; of a pruned run the word says it all. */
export function endText(run: { state: RunState; reason: string | null }): string {
  const shown = shownState(run);
  return shown === "PRUNED" || !run.reason
    ? stateWord(shown)
    : `${stateWord(shown)}: ${run.reason}`;
}

/** The state that has this name or word, in any case. */
export function stateNamed(text: string): RunState | undefined {
  const upper = text.toUpperCase();
  return RUN_STATES.find((state) => state === upper || STATE_WORDS[state].toUpperCase() === upper);
}

/** `pruned`: early stopping has ended it, which is no failure. */
export const OUTCOMES = ["succeeded", "failed", "canceled", PRUNED] as const;
export type Outcome = typeof OUTCOMES[number];

/**
 * - `intended`: committed before the engine is asked, so that a later daemon can search for the job
 *   by its name
 * - `queued`: the engine has the job in its queue
 * - `running`: the job has nodes
 * - `ended`: the engine has no process of the job left
 */
export const PLACEMENT_PHASES = ["intended", "queued", "running", "ended"] as const;
export type PlacementPhase = typeof PLACEMENT_PHASES[number];
