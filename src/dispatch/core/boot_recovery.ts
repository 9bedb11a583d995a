/**
 * What a daemon begins with (its host's GPU slots, the runs an earlier daemon has left), piece by piece: none keeps it
 * from starting. What fails for want of free space is tried again until it succeeds; what fails for good is quarantined.
 *
 * What waits keeps back only what needs it: no GPU is given away before the host's slots are entered, and a run with
 * processes has its place among those that may run. (The slots that it holds are in the registry, recovered or not.)
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { isShortage } from "../../os/shortage.ts";

export interface RecoveryTask {
  what: string;
  runId?: string;
  /** What the daemon cannot count on while the task waits. */
  keepsBack?: "gpus" | "a place";
  /** May be called again when it has thrown. */
  work(): void;
  /** What is done instead when `work` cannot succeed; may be called again when it has thrown for want of free space. */
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

  /** Tries what is left, up to the first that still fails: each may wait for a locked database, and the thread with it. */
  retry(): void {
    if (this.#left.length === 0) return;
    while (this.#left.length > 0) {
      const task = this.#left.shift()!;
      if (this.#done(task, false)) continue;
      // Behind the others: they must not wait for a trouble that is this one's alone.
      this.#left.push(task);
      return;
    }
    this.#log.info("recovery complete");
  }

  /** How many of what is left keep this back. */
  keptBack(what: NonNullable<RecoveryTask["keepsBack"]>): number {
    return this.#left.filter((task) => task.keepsBack === what).length;
  }

  /** Whether this run is among what is left. */
  waits(runId: string): boolean {
    return this.#left.some((task) => task.runId === runId);
  }

  #done(task: RecoveryTask, first: boolean): boolean {
    const { what, runId } = task;
    try {
      this.#try(task);
      return true;
    } catch (error) {
      // Without the host's slots no GPU may be given away, whatever keeps them from being entered.
      if (isShortage(error) || task.keepsBack === "gpus") {
        if (first) {
          this.#log.error({ what, run_id: runId, error: messageOf(error) }, "not recovered yet; trying again");
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
      this.#log.error({ what, run_id: runId, error: messageOf(error) }, "cannot be recovered and is quarantined");
      quarantine(error);
    }
  }
}
