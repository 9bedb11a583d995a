/**
 * Changes that a transition implies for a run's row, besides its state. Pure; an explicit patch
 * overrides them.
 */
import { isEnded, type LifecycleEvent, outcomeOf, type RunState } from "./lifecycle/lifecycle.ts";
import type { EventToAppend } from "./event_kinds.ts";
import type { RunRow } from "./row_types.ts";

/**
 * A run waits to be started: after its submission, or for another attempt. `position` 1 is next;
 * null: unknown.
 */
export function queuedEvent(run: RunRow, position: number | null): EventToAppend {
  return { kind: "queued", data: { digest: run.digest, priority: run.priority, position } };
}

/** Fields of the previous attempt's processes. */
const NO_PROCESSES: Partial<RunRow> = {
  proxy: null,
  worker: null,
  sessionToken: null,
  lastHeartbeatAt: null,
  faultRequested: null,
};

/**
 * - `startedAt` at spawned, `finishedAt` and `outcome` when it ends
 * - `reason` is the event's while the run has failed, was cancelled, is paused or waits, and null
 *   otherwise
 * - a retry clears how the attempt before ended; the transitions keep it
 */
export function effectsOf(event: LifecycleEvent, to: RunState, now: number): Partial<RunRow> {
  const reason = "reason" in event ? event.reason : null;
  if (isEnded(to)) return { finishedAt: now, outcome: outcomeOf(to, reason) ?? null, reason };
  switch (event.type) {
    case "spawned":
      return { startedAt: now, notBefore: null, lastHeartbeatAt: null, reason };
    case "retry":
      return {
        ...NO_PROCESSES,
        reason,
        outcome: null,
        finishedAt: null,
        hint: null,
        exitCode: null,
        exitSignal: null,
        stderrTail: [],
        cancelRequestedAt: null,
        cancelReason: null,
        pauseRequested: false,
      };
    case "requeued":
      return { ...NO_PROCESSES, reason, startedAt: null };
    case "pause":
    case "resume":
      return { reason };
    default:
      return {};
  }
}
