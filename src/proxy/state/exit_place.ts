/**
 * Path of an attempt's exit record: wrappers of older versions write it beside the control
 * directory, not in it.
 */
import type { RunFiles } from "../../base/layout.ts";

/** The value of `exit` in a worker file of this version. */
export const EXIT_IN_CONTROL = "control";

/**
 * Only the worker file, which a sandboxed worker cannot change, may direct a reader to the older
 * place: the worker could forge a record there.
 * @param workerText the worker file's text; undefined if there is none
 */
export function exitFileOf(
  files: RunFiles,
  attempt: number,
  workerText: string | undefined,
): string {
  try {
    const worker = JSON.parse(workerText ?? "") as { pid?: unknown; exit?: unknown };
    if (typeof worker.pid === "number" && worker.exit === undefined) {
      return files.olderExitFile(attempt);
    }
  } catch {
    // No worker file, or it is being written.
  }
  return files.exitFile(attempt);
}
