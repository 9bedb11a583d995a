/** Ends a worker's whole process group: SIGTERM, the grace period, SIGKILL until nothing of it lives. */
import { groupAlive, signalGroup } from "../process/signals.ts";
import { patiently } from "./patience.ts";
import type { ProcessRef } from "../registry/types.ts";
import { sleep } from "../sleep.ts";

const LOOK_MS = 50;
/** A process that the kernel does not let go (a hung disk) is not waited for longer. */
const KILL_MS = 30_000;

export class GroupEnd {
  readonly #leader: ProcessRef;
  #deadline: number;
  readonly done: Promise<void>;

  constructor(leader: ProcessRef, graceSeconds: number) {
    this.#leader = leader;
    this.#deadline = performance.now() + graceSeconds * 1000;
    this.done = this.#run();
  }

  /** A second, more impatient request. */
  shorten(graceSeconds: number): void {
    this.#deadline = Math.min(this.#deadline, performance.now() + graceSeconds * 1000);
  }

  async #run(): Promise<void> {
    await patiently(() => signalGroup(this.#leader, "SIGTERM"));
    // What is stopped takes its SIGTERM when it is continued.
    await patiently(() => signalGroup(this.#leader, "SIGCONT"));
    while (performance.now() < this.#deadline) {
      if (!await patiently(() => groupAlive(this.#leader))) return;
      await sleep(Math.min(LOOK_MS, Math.max(1, this.#deadline - performance.now())));
    }
    const givenUp = performance.now() + KILL_MS;
    while (await patiently(() => groupAlive(this.#leader)) && performance.now() < givenUp) {
      await patiently(() => signalGroup(this.#leader, "SIGKILL"));
      await sleep(LOOK_MS);
    }
  }
}
