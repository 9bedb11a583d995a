/**
 * Steps per second over the last seconds, in one-second buckets. The caller calls `restart` when
 * the rate changes by a decision (resume, throttle), and does not add records that are read late.
 */
const WINDOW_S = 5;
/** Minimum divisor: a rate over a shorter time would fluctuate. */
const LEAST_S = 1;

export class RateMeter {
  readonly #counts = new Array<number>(WINDOW_S + 1).fill(0);
  #second = 0;
  #firstMs: number | undefined;

  /** Discards all counts and starts measuring now. */
  restart(nowMs: number): void {
    this.#advance(nowMs);
    this.#counts.fill(0);
    this.#firstMs = nowMs;
  }

  /** @param nowMs of a monotonic clock */
  add(count: number, nowMs: number): void {
    // The first records were made over an unknown time: do not count them.
    if (this.#firstMs === undefined) return this.restart(nowMs);
    this.#advance(nowMs);
    this.#counts[this.#second % this.#counts.length]! += count;
  }

  perSecond(nowMs: number): number {
    if (this.#firstMs === undefined) return 0;
    this.#advance(nowMs);
    const total = this.#counts.reduce((sum, n) => sum + n, 0);
    // The window is not full in the first seconds, and its newest second is always partial.
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
