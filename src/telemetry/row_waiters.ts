/**
 * Followers of runs: one entry in a set for each follower and for each wait; waiting costs nothing
 * else.
 */
import { MosaicError } from "../base/errors.ts";
import { TELEMETRY_KINDS, type TelemetryKind } from "../records/record_fields.ts";
import type { FollowedRun } from "./telemetry_log.ts";

interface Waiter {
  since: number;
  resolve: () => void;
}

/** A set for each key that has entries. */
class Sets<T> {
  readonly #sets = new Map<string, Set<T>>();

  add(key: string, value: T): void {
    const set = this.#sets.get(key);
    if (set === undefined) this.#sets.set(key, new Set([value]));
    else set.add(value);
  }

  remove(key: string, value: T): void {
    const set = this.#sets.get(key);
    if (set?.delete(value) && set.size === 0) this.#sets.delete(key);
  }

  of(key: string): T[] {
    return [...this.#sets.get(key) ?? []];
  }
}

export class Waiters {
  /** By kind and run id. */
  readonly #waiting = new Sets<Waiter>();
  /** By run id. */
  readonly #following = new Sets<AbortController>();

  follow(runId: string): FollowedRun {
    const follower = new AbortController();
    this.#following.add(runId, follower);
    return {
      runId,
      deleted: follower.signal,
      [Symbol.dispose]: () => this.#following.remove(runId, follower),
    };
  }

  /**
   * Resolves when `wake` reports a head beyond `since`, when the run is deleted, or when the signal
   * aborts.
   */
  wait(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const key = `${kind} ${runId}`;
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done);
        this.#waiting.remove(key, waiter);
        resolve();
      };
      const waiter: Waiter = { since, resolve: done };
      this.#waiting.add(key, waiter);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  wake(runId: string, heads: Record<TelemetryKind, number>): void {
    for (const kind of TELEMETRY_KINDS) {
      for (const waiter of this.#waiting.of(`${kind} ${runId}`)) {
        if (heads[kind] > waiter.since) waiter.resolve();
      }
    }
  }

  /** Notifies every follower of the run, including busy ones. */
  deleted(runId: string): void {
    for (const follower of this.#following.of(runId)) {
      this.#following.remove(runId, follower);
      follower.abort(new MosaicError("not_found", `run ${runId} was deleted`));
    }
    for (const kind of TELEMETRY_KINDS) {
      for (const waiter of this.#waiting.of(`${kind} ${runId}`)) waiter.resolve();
    }
  }
}
