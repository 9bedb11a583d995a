/** Whether a failed attempt is followed by another (`metadata.restart`). Pure. */
import type { RestartCause, RunPlan } from "../../config/plan.ts";
import { restartDelaySeconds } from "../../config/plan.ts";

/** How engines end jobs that did nothing wrong; what somebody cancelled there is cancelled. */
const INFRASTRUCTURE = ["time_limit", "preempted", "node_fail", "out_of_memory", "job_forgotten", "lease_expired"];

/**
 * The cause that a reason counts as. Undefined for what another attempt cannot mend (a failing preflight, a program that
 * is not there) or that was meant (limits of the config, a strict schema).
 */
function causeOf(reason: string): RestartCause | undefined {
  if (/^(exit_code_\d+|signal_\w+|run_failed\b.*|oom_killed)/.test(reason)) return "exit";
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
  if (cause === undefined || !plan.restart.on.includes(cause) || failed.attempt >= failed.maxAttempts) return undefined;
  return restartDelaySeconds(plan, failed.attempt + 1) * 1000;
}
