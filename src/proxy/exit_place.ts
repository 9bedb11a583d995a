/** Where the record of an attempt's exit is: wrappers of older versions write it beside the control directory, not in it. */
import type { RunFiles } from "../base/layout.ts";

/** What a wrapper of this version puts into the worker file, as `exit`. */
export const EXIT_IN_CONTROL = "control";

/**
 * Only the worker file, which is out of a sandboxed worker's reach, can send a reader to the older place: a record there is
 * a worker's own to forge.
 *
 * @param workerText the worker file's text; undefined where there is none
 */
export function exitFileOf(files: RunFiles, attempt: number, workerText: string | undefined): string {
  try {
    const worker = JSON.parse(workerText ?? "") as { pid?: unknown; exit?: unknown };
    if (typeof worker.pid === "number" && worker.exit === undefined) return files.olderExitFile(attempt);
  } catch {
    // No worker file, or one that is being written.
  }
  return files.exitFile(attempt);
}
