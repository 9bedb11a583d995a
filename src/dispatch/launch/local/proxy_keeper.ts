/**
 * Keeps a proxy for a run that has processes. A dead proxy is replaced by one that attaches; a live
 * one that stays disconnected is killed first. Replacing is always safe (the attempt's lock lets
 * only one serve, and the journal is on disk): the waits here only limit its cost.
 */
import type { RunFiles } from "../../../base/layout.ts";
import { isAlive, type ProcessRef } from "../../../os/processes/identity.ts";
import { signalProcess } from "../../../os/processes/signals.ts";
import { proxyLockHeld, workerStarted } from "./attempt_files.ts";
import { type Recovery, recoveryOf } from "./recovery_decision.ts";

/** Wait after a failed replacement: 0.5 s, doubled up to this. */
const MAX_BACKOFF_MS = 30_000;
/** Wait between two tries while nothing can be started. */
const SHORTAGE_MS = 2000;
/**
 * After this many proxies in a row that died or hung before anything of theirs was stored, the
 * daemon ends the run itself.
 */
const MAX_FAILURES = 6;
/**
 * A proxy that was connected for so long works, even if its worker says nothing. More than one has
 * to report an exit.
 */
const STEADY_MS = 60_000;

/** How long a live proxy may be disconnected before it counts as hung, in milliseconds. */
export const ABSENCE_MS = { normal: 15_000, boot: 5000, attaching: 60_000 } as const;

export type KeeperStep =
  | { do: "wait" }
  /** Nothing was ever started for this attempt. */
  | { do: "start_again" }
  | { do: "attach" }
  /** Proxies do not stay alive here, or deliver nothing. */
  | { do: "give_up" };

export class ProxyKeeper {
  readonly #files: RunFiles;
  readonly #attempt: number;
  #process: ProcessRef | undefined;
  /** Since when no proxy is connected. */
  #absentSince: number;
  #absenceMs: number;
  #failures = 0;
  #nextTry = 0;
  #replacing = false;
  #seenAt: number;

  constructor(
    files: RunFiles,
    attempt: number,
    process: ProcessRef | undefined,
    now: number,
    absenceMs: number,
  ) {
    this.#files = files;
    this.#attempt = attempt;
    this.#process = process;
    this.#absentSince = this.#seenAt = now;
    this.#absenceMs = absenceMs;
  }

  /** The run's first proxy was started. It has the handshake's own time limit. */
  started(process: ProcessRef | undefined, now: number): void {
    this.#started(process, now, Infinity);
  }

  /**
   * Starts a proxy that attaches. @throws why none can be started: that does not count as a proxy
   * that died
   */
  attach(start: () => ProcessRef | undefined, now: number): ProcessRef | undefined {
    let process: ProcessRef | undefined;
    try {
      process = start();
    } catch (error) {
      this.#nextTry = now + SHORTAGE_MS;
      throw error;
    }
    this.#started(process, now, ABSENCE_MS.attaching);
    this.#replacing = true;
    return process;
  }

  #started(process: ProcessRef | undefined, now: number, absenceMs: number): void {
    this.#process = process;
    this.#absentSince = now;
    this.#absenceMs = absenceMs;
    this.#failures++;
    this.#nextTry = now + Math.min(MAX_BACKOFF_MS, 500 * 2 ** (this.#failures - 1));
  }

  /**
   * A proxy has said hello: it is neither gone nor hung, even if it cannot be given one just now.
   */
  seen(process: ProcessRef, now: number): void {
    this.#process = process;
    this.#absentSince = this.#seenAt = now;
    this.#absenceMs = ABSENCE_MS.normal;
  }

  /**
   * A proxy has connected. That alone is no success: what ends it may come again each time, for
   * example in what it reads.
   */
  connected(process: ProcessRef): void {
    this.#process = process;
    this.#replacing = false;
  }

  /** Something that the connected proxy has delivered is stored. */
  delivered(): void {
    this.#failures = 0;
    this.#nextTry = 0;
  }

  disconnected(now: number): void {
    if (now - this.#seenAt >= STEADY_MS) this.delivered();
    this.#absentSince = now;
    this.#absenceMs = ABSENCE_MS.normal;
  }

  /** From now on the proxy has `ms` to connect. */
  hurry(now: number, ms: number): void {
    if (this.#absentSince + this.#absenceMs <= now + ms) return;
    this.#absentSince = now;
    this.#absenceMs = ms;
  }

  kill(): void {
    if (this.#process !== undefined) signalProcess(this.#process, "SIGKILL");
  }

  /** The proxy was killed or found dead, and its replacement has not connected yet. */
  get replacing(): boolean {
    return this.#replacing;
  }

  /**
   * What to do while no proxy is connected.
   * @param registered the run is past HANDSHAKE
   * @param mayReplace false while so many other proxies are being replaced that another replacement
   * would only slow them
   *   down
   */
  step(now: number, registered: boolean, mayReplace: boolean): KeeperStep {
    const lives = this.#process !== undefined && isAlive(this.#process);
    if (lives) {
      if (now - this.#absentSince > this.#absenceMs && (mayReplace || this.#replacing)) {
        this.#replacing = true;
        this.kill();
      }
      return { do: "wait" };
    }
    if (now < this.#nextTry) return { do: "wait" };
    // Asked only now that no proxy of ours is known to live: one that is not in the registry may
    // hold the lock.
    const held = this.#absentSince + this.#absenceMs > now &&
      proxyLockHeld(this.#files, this.#attempt);
    const recovery: Recovery = recoveryOf({
      proxyLives: held,
      workerStarted: workerStarted(this.#files, this.#attempt),
      registered,
    });
    if (recovery === "await") return { do: "wait" };
    if (recovery === "start_again") return { do: "start_again" };
    if (this.#failures >= MAX_FAILURES) return { do: "give_up" };
    return { do: mayReplace || this.#replacing ? "attach" : "wait" };
  }
}
