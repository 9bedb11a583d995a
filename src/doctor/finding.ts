/** What an examination of a state directory finds. */

/**
 * - `error`: something does not work, or will not
 * - `warning`: something is not as it should be, and nothing is lost
 * - `note`: worth knowing
 */
export type Severity = "error" | "warning" | "note";

export interface Finding {
  /** What was looked at; a closed list, documented in docs/operations.md. */
  check: Check;
  severity: Severity;
  path: string;
  message: string;
  /** What `--repair` does about it; "" when a person has to decide. */
  remedy: string;
}

export type Check =
  | "database"
  | "schema"
  | "run_rows"
  | "gpu_slots"
  | "processes"
  | "orphan_directory"
  | "orphan_config"
  | "missing_directory"
  | "daemon_files"
  | "modes"
  | "temporary"
  | "unknown_file"
  | "lost_and_found";

/** A finding with its repair, which says what was done and throws when it could not be. */
export interface Repairable extends Finding {
  repair?: () => string;
}

export function plain({ check, severity, path, message, remedy }: Repairable): Finding {
  return { check, severity, path, message, remedy };
}
