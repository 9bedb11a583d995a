/** A finding of a check of a state directory. */

/**
 * - `error`: something does not work, or will not work
 * - `warning`: something is wrong, but no data is lost
 * - `note`: for information
 */
export type Severity = "error" | "warning" | "note";

export interface Finding {
  /** What was checked; a closed list, documented in docs/reference/operations.md. */
  check: Check;
  severity: Severity;
  path: string;
  message: string;
  /** What `--repair` does about it; "" if it needs a human decision. */
  remedy: string;
}

export type Check =
  | "database"
  | "schema"
  | "run_rows"
  | "telemetry"
  | "gpu_slots"
  | "processes"
  | "orphan_directory"
  | "orphan_config"
  | "missing_directory"
  | "daemon_files"
  | "worker_user"
  | "modes"
  | "temporary"
  | "unknown_file"
  | "lost_and_found"
  | "file_system";

/** A finding with its repair, which returns what was done and throws on failure. */
export interface Repairable extends Finding {
  repair?: () => string;
}

export function plain({ check, severity, path, message, remedy }: Repairable): Finding {
  return { check, severity, path, message, remedy };
}
