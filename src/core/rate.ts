/** Steps per second over the last seconds, in one-second buckets. */
const WINDOW_S = 5;

export class RateMeter {
  readonly #counts = new Array<number>(WINDOW_S + 1).fill(0);
  #second = 0;
  #firstMs: number | undefined;

  /** @param nowMs of a monotonic clock */
  add(count: number, nowMs: number): void {
    this.#firstMs ??= nowMs;
    this.#advance(nowMs);
    this.#counts[this.#second % this.#counts.length]! += count;
  }

  perSecond(nowMs: number): number {
    if (this.#firstMs === undefined) return 0;
    this.#advance(nowMs);
    const total = this.#counts.reduce((sum, n) => sum + n, 0);
    // The window is not full yet in the first seconds, and its newest second never is.
    const covered = Math.min((nowMs - this.#firstMs) / 1000, WINDOW_S + (nowMs / 1000) % 1);
    return total / Math.max(covered, 0.25);
  }

  #advance(nowMs: number): void {
    const second = Math.floor(nowMs / 1000);
    const passed = Math.min(second - this.#second, this.#counts.length);
    for (let i = 1; i <= passed; i++) this.#counts[(second - passed + i) % this.#counts.length] = 0;
    if (second > this.#second) this.#second = second;
  }
}
