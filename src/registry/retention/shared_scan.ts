/**
 * A costly scan whose result concurrent callers share: one scan at a time, and results are cached.
 */

/** A result is cached for this many times the scan time. */
const REST = 10;
/** At most this long (ms), because the files change. */
const LONGEST_MS = 60_000;
/** Results of shorter scans (ms) are not cached. */
const CHEAP_MS = 50;

export class SharedScan<T> {
  readonly #scan: () => Promise<T>;
  readonly #now: () => number;
  #under: Promise<T> | undefined;
  #last: { found: T; until: number } | undefined;

  /** @param now a monotonic clock, in milliseconds */
  constructor(scan: () => Promise<T>, now: () => number = () => performance.now()) {
    this.#scan = scan;
    this.#now = now;
  }

  /**
   * The cached result, or that of the current or a new scan. An error is reported to all waiting
   * callers and not cached.
   */
  get(): Promise<T> {
    if (this.#last !== undefined && this.#now() < this.#last.until) {
      return Promise.resolve(this.#last.found);
    }
    if (this.#under !== undefined) return this.#under;
    const begun = this.#now();
    const scan = this.#scan().then((found) => {
      const took = this.#now() - begun;
      if (this.#under === scan && took >= CHEAP_MS) {
        this.#last = { found, until: this.#now() + Math.min(REST * took, LONGEST_MS) };
      }
      return found;
    }).finally(() => {
      if (this.#under === scan) this.#under = undefined;
    });
    return this.#under = scan;
  }

  /** Invalidates the cached result and the current scan: the next caller starts a new one. */
  forget(): void {
    this.#last = undefined;
    this.#under = undefined;
  }
}
