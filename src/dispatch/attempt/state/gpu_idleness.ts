/** Mean utilisation of a run's GPUs over the last so many seconds. */

/** A longer time without a sample (a suspended host, a paused run) begins the window anew. */
const GAP_MS = 300_000;
/** Samples of longer windows are joined. */
const MOST = 1024;

export class Window {
  readonly #ms: number;
  /** Mean of the samples since the one before. */
  #samples: { at: number; percent: number }[] = [];
  #joined: { sum: number; count: number } = { sum: 0, count: 0 };
  #since: number | undefined;

  constructor(ms: number) {
    this.#ms = ms;
  }

  /** @param now monotonic milliseconds @returns the mean, as soon as the samples span the window */
  add(percent: number, now: number): number | undefined {
    const last = this.#samples.at(-1)?.at ?? this.#since;
    if (last !== undefined && now - last > Math.max(GAP_MS, 2 * this.#ms / MOST)) this.clear();
    this.#since ??= now;
    this.#joined = { sum: this.#joined.sum + percent, count: this.#joined.count + 1 };
    if (this.#samples.length === 0 || now - this.#samples.at(-1)!.at >= this.#ms / MOST) {
      this.#samples.push({ at: now, percent: this.#joined.sum / this.#joined.count });
      this.#joined = { sum: 0, count: 0 };
    }
    if (now - this.#since < this.#ms) return undefined;
    const first = this.#samples.findIndex(({ at }) => at >= now - this.#ms);
    this.#samples = first < 0 ? [] : this.#samples.slice(first);
    if (this.#samples.length === 0) return undefined;
    return this.#samples.reduce((sum, sample) => sum + sample.percent, 0) / this.#samples.length;
  }

  clear(): void {
    this.#samples = [];
    this.#joined = { sum: 0, count: 0 };
    this.#since = undefined;
  }
}
