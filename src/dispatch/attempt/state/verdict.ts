/** How a run ends, from what was requested and how its worker ended. Pure. */
import { type ExitReport, explain, type OutOfMemory } from "../../../registry/failure/explain.ts";
import type { LifecycleEvent } from "../../../registry/lifecycle/lifecycle.ts";
import type { RunPatch, RunRow } from "../../../registry/row_types.ts";
import type { EngineEnd } from "./host.ts";
import { PREEMPTED } from "./restart.ts";

export type Requests = Pick<RunRow, "cancelRequestedAt" | "cancelReason" | "faultRequested">;

export interface Verdict {
  event: LifecycleEvent & { type: "exited_ok" | "failed" | "cancelled" };
  patch: RunPatch;
}

/**
 * Precedence: a cancellation, then a failure decided by the daemon (a limit, a reset), then how the
 * worker ended. A worker that reported `run_failed` and exits with 0 has failed.
 * @param exit undefined if no worker was ever started
 * @param oomKilled the kernel has killed the worker or a child of it
 * @param runFailed the text of a `run_failed` record of this attempt
 * @param leftOut names of the submitting shell's variables that the run did not get
 * @param engine why the engine has ended the attempt's job; a cancellation at the engine counts as
 * one here
 */
export function verdictOf(
  requests: Requests,
  exit: ExitReport | undefined,
  runFailed: string | undefined,
  oomKilled?: OutOfMemory,
  engine?: EngineEnd,
  leftOut: readonly string[] = [],
): Verdict {
  const patch: RunPatch = {
    exitCode: exit?.code ?? null,
    exitSignal: exit === undefined || exit.signal === "" ? null : exit.signal,
    stderrTail: exit?.stderrTail ?? [],
  };
  if (requests.cancelRequestedAt !== null) {
    return { event: { type: "cancelled", reason: requests.cancelReason ?? "user_cancel" }, patch };
  }
  // A worker that ended with 0 before the engine ended its job has succeeded.
  const engineEnd = exit?.code === 0 && !exit.lost ? undefined : engine;
  if (engineEnd?.reason === "job_cancelled" && requests.faultRequested === null) {
    const explanation = explain({ exit, faultRequested: null, runFailed: undefined, engineEnd });
    return {
      event: { type: "cancelled", reason: engineEnd.reason },
      patch: { ...patch, hint: explanation?.hint ?? null },
    };
  }
  // It ended before the SIGTERM that was to make it give way: it has succeeded, and must not start
  // once more.
  const hasDone = requests.faultRequested === PREEMPTED && exit?.byItself === true &&
    exit.code === 0 &&
    runFailed === undefined;
  if (hasDone) return { event: { type: "exited_ok" }, patch };
  const failure = explain({
    exit,
    faultRequested: requests.faultRequested,
    runFailed,
    oomKilled,
    engineEnd,
    leftOut,
  });
  if (failure === undefined) return { event: { type: "exited_ok" }, patch };
  return {
    event: { type: "failed", reason: failure.reason },
    patch: { ...patch, hint: failure.hint },
  };
}
