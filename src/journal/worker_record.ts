/**
 * The worker file (src/proxy/worker/wrapper.ts): the wrapper that leads the worker's group, and the
 * file of the worker's output.
 */
import type { ProcessRef } from "../os/processes/identity.ts";

export interface WorkerRecord {
  leader: ProcessRef;
  /** `device:inode` of the journal when the worker started; undefined if it was not recorded. */
  journal: string | undefined;
  /** Unix milliseconds; NaN if it was not recorded. */
  startedAt: number;
}

/**
 * @param text undefined if there is no file @returns undefined if it is not (or not completely)
 * written
 */
export function workerRecordIn(text: string | undefined): WorkerRecord | undefined {
  try {
    const { pid, identity, journal, started_at } = JSON.parse(text ?? "");
    if (!Number.isSafeInteger(pid) || pid <= 1 || typeof identity !== "string") return undefined;
    return {
      leader: { pid, identity },
      journal: typeof journal === "string" && journal !== "" ? journal : undefined,
      startedAt: Date.parse(started_at),
    };
  } catch {
    return undefined;
  }
}
