/** Whether a failed attempt is followed by another (`metadata.restart`). Pure. */
import { type RestartCause, restartDelaySeconds, type RunPlan } from "../../../config/plan.ts";

/**
 * `fault_requested` of a run that gives way to another: it returns to the queue, and the attempt
 * does not count.
 */
export const PREEMPTED = "preempted";

/**
 * Ends that are the engine's doing, not the job's; a cancellation at the engine is not among them.
 */
const INFRASTRUCTURE = [
  "time_limit",
  "preempted",
  "node_fail",
  "out_of_memory",
  "job_forgotten",
  "lease_expired",
];

/**
 * The restart cause of a failure reason. Undefined for failures that another attempt would repeat
 * (a failing preflight, a missing program) or that were intended (limits of the config, a strict
 * schema).
 */
function causeOf(reason: string): RestartCause | undefined {
  if (/^(exit_code_\d+|signal_\w+|run_failed\b.*|oom_killed|gpu_out_of_memory\b.*)/.test(reason)) {
    return "exit";
  }
  if (reason === "heartbeat_timeout" || reason === "stall_timeout") return "heartbeat";
  if (reason === "handshake_timeout") return "handshake";
  if (reason === "worker_lost" || reason === "proxy_lost") return "lost";
  if (INFRASTRUCTURE.includes(reason)) return "infrastructure";
  return undefined;
}

/** Milliseconds to wait before the next attempt; undefined when there is none. */
export function restartDelay(
  plan: RunPlan,
  failed: { attempt: number; maxAttempts: number; reason: string },
): number | undefined {
  const cause = causeOf(failed.reason);
  if (
    cause === undefined || !plan.restart.on.includes(cause) || failed.attempt >= failed.maxAttempts
  ) return undefined;
  return restartDelaySeconds(plan, failed.attempt + 1) * 1000;
}
