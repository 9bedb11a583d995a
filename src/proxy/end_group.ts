/** Ends a worker's whole process group, and one that it has begun itself: SIGTERM, the grace period, SIGKILL until nothing of it lives. */
import { WorkerGroups } from "../os/signals.ts";
import { patiently } from "./retry_on_shortage.ts";
import type { ProcessRef } from "../os/identity.ts";
import { sleep } from "../base/sleep.ts";

const LOOK_MS = 50;
/** A process that the kernel does not let go (a hung disk) is not waited for longer. */
const KILL_MS = 30_000;

export class GroupEnd {
  readonly #groups: WorkerGroups;
  #deadline: number;
  readonly done: Promise<void>;

  constructor(leader: ProcessRef, graceSeconds: number) {
    this.#groups = new WorkerGroups(leader);
    this.#deadline = performance.now() + graceSeconds * 1000;
    this.done = this.#run();
  }

  /** A second, more impatient request. */
  shorten(graceSeconds: number): void {
    this.#deadline = Math.min(this.#deadline, performance.now() + graceSeconds * 1000);
  }

  async #run(): Promise<void> {
    await patiently(() => this.#groups.signal("SIGTERM"));
    // What is stopped takes its SIGTERM when it is continued.
    await patiently(() => this.#groups.signal("SIGCONT"));
    while (performance.now() < this.#deadline) {
      if (!await patiently(() => this.#groups.alive())) return;
      await sleep(Math.min(LOOK_MS, Math.max(1, this.#deadline - performance.now())));
    }
    const givenUp = performance.now() + KILL_MS;
    while (await patiently(() => this.#groups.alive()) && performance.now() < givenUp) {
      await patiently(() => this.#groups.signal("SIGKILL"));
      await sleep(LOOK_MS);
    }
  }
}
