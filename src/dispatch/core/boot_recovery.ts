/**
 * Recovery at the start of a daemon, in tasks (the host's GPU slots, the runs of an earlier
 * daemon). A failing task does not keep the daemon from starting: a task without free space is
 * retried until it succeeds; one that fails for good is quarantined. A pending task blocks only
 * what depends on it: no GPU is assigned before the host's slots are entered, and a run with
 * processes counts as running. (The slots that it holds are in the registry, recovered or not.)
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { isShortage } from "../../os/processes/shortage.ts";

export interface RecoveryTask {
  what: string;
  runId?: string;
  /** What is blocked while the task waits. */
  keepsBack?: "gpus" | "a place";
  /** May be called again after it has thrown. */
  work(): void;
  /**
   * Called if `work` cannot succeed; may be called again after it has thrown for lack of free
   * space.
   */
  quarantine?(why: unknown): void;
}

export class Recovery {
  readonly #log: Logger;
  #left: RecoveryTask[] = [];

  constructor(log: Logger) {
    this.#log = log;
  }

  do(task: RecoveryTask): void {
    if (!this.#done(task, true)) this.#left.push(task);
  }

  /**
   * Retries pending tasks up to the first that still fails: each may block this thread on a locked
   * database.
   */
  retry(): void {
    if (this.#left.length === 0) return;
    while (this.#left.length > 0) {
      const task = this.#left.shift()!;
      if (this.#done(task, false)) continue;
      // Moved to the end, so that the others do not wait for a trouble of this task alone.
      this.#left.push(task);
      return;
    }
    this.#log.info("recovery complete");
  }

  /** Number of pending tasks that block this. */
  keptBack(what: NonNullable<RecoveryTask["keepsBack"]>): number {
    return this.#left.filter((task) => task.keepsBack === what).length;
  }

  /** Whether this run's task is pending. */
  waits(runId: string): boolean {
    return this.#left.some((task) => task.runId === runId);
  }

  #done(task: RecoveryTask, first: boolean): boolean {
    const { what, runId } = task;
    try {
      this.#try(task);
      return true;
    } catch (error) {
      // Without the host's slots no GPU may be assigned, so this task is retried whatever the error
      // is.
      if (isShortage(error) || task.keepsBack === "gpus") {
        if (first) {
          this.#log.error(
            { what, run_id: runId, error: messageOf(error) },
            "not recovered yet; trying again",
          );
        }
        return false;
      }
      this.#log.error(
        { what, run_id: runId, error: messageOf(error) },
        "a defect: this can neither be recovered nor quarantined",
      );
      return true;
    }
  }

  #try({ what, runId, work, quarantine }: RecoveryTask): void {
    try {
      work();
    } catch (error) {
      if (isShortage(error) || quarantine === undefined) throw error;
      this.#log.error(
        { what, run_id: runId, error: messageOf(error) },
        "cannot be recovered and is quarantined",
      );
      quarantine(error);
    }
  }
}
