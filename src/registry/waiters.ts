/** Waiting readers of a growing log. A waiting reader costs one set entry: no timer, no query. */
export class Waiters {
  readonly #parked = new Set<{ beyond: number; wake: () => void }>();

  /** Number of waiting readers. */
  get size(): number {
    return this.#parked.size;
  }

  /** Resolves when `wake` is called with a head past `beyond`, or when the signal aborts. */
  wait(beyond: number, head: number, signal: AbortSignal): Promise<void> {
    if (head > beyond || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#parked.delete(waiter);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const waiter = { beyond, wake: done };
      this.#parked.add(waiter);
      signal.addEventListener("abort", done);
    });
  }

  /** Call it after the commit that moved the head. */
  wake(head: number): void {
    for (const waiter of [...this.#parked]) if (head > waiter.beyond) waiter.wake();
  }

  /** The log is closing: all waits end. */
  wakeAll(): void {
    for (const waiter of [...this.#parked]) waiter.wake();
  }
}
