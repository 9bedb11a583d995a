/**
 * Ends a worker's whole process group, or a group that the worker has started: SIGTERM, the grace
 * period, SIGKILL until no process is left.
 */
import { WorkerGroups } from "../../os/processes/signals.ts";
import { retryOnShortage } from "../state/retry_on_shortage.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { sleep } from "../../base/time/sleep.ts";
import { KILL_WAIT_MS } from "../state/grace.ts";

const POLL_MS = 50;

export class GroupEnd {
  readonly #groups: WorkerGroups;
  #deadline: number;
  readonly done: Promise<void>;

  constructor(leader: ProcessRef, graceSeconds: number) {
    this.#groups = new WorkerGroups(leader);
    this.#deadline = performance.now() + graceSeconds * 1000;
    this.done = this.#run();
  }

  /** A second request with a shorter grace period. */
  shorten(graceSeconds: number): void {
    this.#deadline = Math.min(this.#deadline, performance.now() + graceSeconds * 1000);
  }

  async #run(): Promise<void> {
    await retryOnShortage(() => this.#groups.signal("SIGTERM"));
    // A stopped process receives its SIGTERM only when it is continued.
    await retryOnShortage(() => this.#groups.signal("SIGCONT"));
    while (performance.now() < this.#deadline) {
      if (!await retryOnShortage(() => this.#groups.alive())) return;
      await sleep(Math.min(POLL_MS, Math.max(1, this.#deadline - performance.now())));
    }
    const givenUp = performance.now() + KILL_WAIT_MS;
    while (await retryOnShortage(() => this.#groups.alive()) && performance.now() < givenUp) {
      await retryOnShortage(() => this.#groups.signal("SIGKILL"));
      await sleep(POLL_MS);
    }
  }
}
