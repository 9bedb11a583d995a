/**
 * Stops a worker's process group, and one that it has begun itself: SIGTERM, the grace period, SIGKILL until nothing of it lives. A proxy that is connected
 * is told to do it (it knows how to reach its worker); the daemon does it itself where there is none, or where the
 * proxy has not done it in time.
 */
import type { ProxyLink } from "../core/core.ts";
import { WorkerGroups } from "../../os/signals.ts";
import type { ProcessRef } from "../../os/identity.ts";

/** How much longer than the grace period a proxy may take before the daemon kills the group itself. */
const PROXY_MARGIN_MS = 2000;

export class GroupStop {
  readonly startedAt: number;
  #graceMs: number;
  #told: ProxyLink | undefined;
  #terminated = false;
  /** Found when the stop begins, whoever does it: a proxy that waits for the last of them is not late with its report. */
  #groups: WorkerGroups | undefined;
  /** When the group was first seen to be gone. */
  #goneAt: number | undefined;

  constructor(graceMs: number, now: number) {
    this.#graceMs = graceMs;
    this.startedAt = now;
  }

  /** A second, more impatient request. */
  shorten(graceMs: number): void {
    if (graceMs >= this.#graceMs) return;
    this.#graceMs = graceMs;
    this.#told = undefined;
  }

  /** Another proxy has connected: its time to report begins now. */
  proxyConnected(): void {
    this.#goneAt = undefined;
  }

  /** Milliseconds since the group was found gone (and its proxy had connected); undefined while any of it lives. */
  goneFor(now: number): number | undefined {
    return this.#goneAt === undefined ? undefined : now - this.#goneAt;
  }

  /** Whether anything of the worker still lives. */
  alive(worker: ProcessRef): boolean {
    return this.#groupsOf(worker).alive();
  }

  #groupsOf(worker: ProcessRef): WorkerGroups {
    return this.#groups ??= new WorkerGroups(worker);
  }

  /**
   * Takes the next step; to be called every fraction of a second.
   * @param worker undefined while no worker is known of
   */
  advance(now: number, worker: ProcessRef | undefined, link: ProxyLink | undefined): void {
    const waited = now - this.startedAt;
    if (link !== undefined && link !== this.#told) {
      this.#told = link;
      link.stop(Math.max(0, this.#graceMs - waited) / 1000);
    }
    const groups = worker === undefined ? undefined : this.#groupsOf(worker);
    if (groups === undefined || !groups.alive()) {
      if (worker !== undefined || link === undefined) this.#goneAt ??= now;
      return;
    }
    this.#goneAt = undefined;
    const byProxy = link !== undefined;
    if (waited > this.#graceMs + (byProxy ? PROXY_MARGIN_MS : 0)) {
      groups.signal("SIGKILL");
    } else if (!byProxy && !this.#terminated) {
      this.#terminated = true;
      groups.signal("SIGTERM");
      // A group that is stopped takes its SIGTERM when it is continued.
      groups.signal("SIGCONT");
    }
  }
}
