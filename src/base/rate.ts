/**
 * Steps per second over the last seconds, in one-second buckets: of what a worker makes now. Whoever uses it begins anew
 * (`restart`) where that changes by a decision (a run goes on, is held to another rate), and leaves out what is read late.
 */
const WINDOW_S = 5;
/** A shorter time says little: a rate over it would jump. */
const LEAST_S = 1;

export class RateMeter {
  readonly #counts = new Array<number>(WINDOW_S + 1).fill(0);
  #second = 0;
  #firstMs: number | undefined;

  /** Forgets everything and measures from now on. */
  restart(nowMs: number): void {
    this.#advance(nowMs);
    this.#counts.fill(0);
    this.#firstMs = nowMs;
  }

  /** @param nowMs of a monotonic clock */
  add(count: number, nowMs: number): void {
    // What comes first was made before, nobody knows since when.
    if (this.#firstMs === undefined) return this.restart(nowMs);
    this.#advance(nowMs);
    this.#counts[this.#second % this.#counts.length]! += count;
  }

  perSecond(nowMs: number): number {
    if (this.#firstMs === undefined) return 0;
    this.#advance(nowMs);
    const total = this.#counts.reduce((sum, n) => sum + n, 0);
    // The window is not full yet in the first seconds, and its newest second never is.
    const covered = Math.min((nowMs - this.#firstMs) / 1000, WINDOW_S + (nowMs / 1000) % 1);
    return total / Math.max(covered, LEAST_S);
  }

  #advance(nowMs: number): void {
    const second = Math.floor(nowMs / 1000);
    const passed = Math.min(second - this.#second, this.#counts.length);
    for (let i = 1; i <= passed; i++) this.#counts[(second - passed + i) % this.#counts.length] = 0;
    if (second > this.#second) this.#second = second;
  }
}
