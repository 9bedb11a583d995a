/**
 * Failure reasons as a closed list, for labels: exit codes, signals and texts must not become
 * series' names.
 */
export const FAILURE_CLASSES = [
  "exit_code",
  "signal",
  "oom_killed",
  "gpu_out_of_memory",
  "run_failed",
  "heartbeat_timeout",
  "worker_timeout",
  "stall_timeout",
  "handshake_timeout",
  "worker_lost",
  "proxy_lost",
  "max_duration",
  "max_steps",
  "spawn_failed",
  "preflight",
  "telemetry_schema",
  "dispatch_error",
  "recovery_failed",
  "reset",
] as const;

/** @param reason from docs/reference/operations.md, such as `exit_code_3` */
export function failureClass(reason: string | null): string {
  const word = (reason ?? "").split(":")[0]!;
  return FAILURE_CLASSES.find((name) => name === word) ??
    FAILURE_CLASSES.find((name) => word.startsWith(`${name}_`)) ?? "other";
}
