/** How a run ends, from what was asked of it and how its worker left. Pure. */
import type { ExitReport } from "../core/core.ts";
import type { LifecycleEvent } from "../lifecycle/lifecycle.ts";
import type { RunPatch, RunRow } from "../registry/types.ts";

export type Requests = Pick<RunRow, "cancelRequestedAt" | "cancelReason" | "faultRequested">;

export interface Verdict {
  event: LifecycleEvent & { type: "exited_ok" | "failed" | "cancelled" };
  patch: RunPatch;
}

/**
 * A cancellation wins over everything, a failure that the daemon decided (a limit, a reset) over how the worker left
 * when it was stopped for it. A worker that said `run_failed` and exits with 0 has failed.
 *
 * @param exit undefined when no worker was ever started
 * @param runFailed the text of a `run_failed` record of this attempt
 */
export function verdictOf(requests: Requests, exit: ExitReport | undefined, runFailed: string | undefined): Verdict {
  const patch: RunPatch = {
    exitCode: exit?.code ?? null,
    exitSignal: exit === undefined || exit.signal === "" ? null : exit.signal,
    stderrTail: exit?.stderrTail ?? [],
  };
  if (requests.cancelRequestedAt !== null) {
    return { event: { type: "cancelled", reason: requests.cancelReason ?? "user_cancel" }, patch };
  }
  const failed = (reason: string): Verdict => ({ event: { type: "failed", reason }, patch });
  if (requests.faultRequested !== null) return failed(requests.faultRequested);
  if (exit === undefined) return failed("worker_lost");
  if (exit.spawnError !== "") return failed(`spawn_failed: ${exit.spawnError}`);
  if (exit.lost) return failed("worker_lost");
  if (exit.signal !== "") return failed(`signal_${exit.signal}`);
  if (exit.code !== 0) return failed(exit.code === null ? "worker_lost" : `exit_code_${exit.code}`);
  if (runFailed !== undefined) return failed(runFailed === "" ? "run_failed" : `run_failed: ${runFailed}`);
  return { event: { type: "exited_ok" }, patch };
}
