/** Who waits for a run's next row of a kind: one entry in a set each, and nothing else while they wait. */
import type { TelemetryKind } from "../types.ts";
import { TELEMETRY_KINDS } from "../record_fields.ts";

interface Waiter {
  since: number;
  resolve: () => void;
}

export class Waiters {
  readonly #waiting = new Map<string, Set<Waiter>>();

  /** Resolves when `wake` tells of a head beyond `since`, or when the signal aborts. */
  wait(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const key = `${kind} ${runId}`;
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done);
        const set = this.#waiting.get(key);
        if (set?.delete(waiter) && set.size === 0) this.#waiting.delete(key);
        resolve();
      };
      const waiter: Waiter = { since, resolve: done };
      const set = this.#waiting.get(key);
      if (set === undefined) this.#waiting.set(key, new Set([waiter]));
      else set.add(waiter);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  wake(runId: string, heads: Record<TelemetryKind, number>): void {
    if (this.#waiting.size === 0) return;
    for (const kind of TELEMETRY_KINDS) {
      const set = this.#waiting.get(`${kind} ${runId}`);
      if (set === undefined) continue;
      for (const waiter of [...set]) if (heads[kind] > waiter.since) waiter.resolve();
    }
  }
}
