/** A costly look at something, shared by those who ask: one at a time, and for a part of the time at most. */

/** A look is good for so many times as long as it took. */
const REST = 10;
/** And no longer than this (ms): what is looked at changes by itself, too. */
const LONGEST_MS = 60_000;
/** One that took less (ms) is not worth keeping. */
const CHEAP_MS = 50;

export class SharedLook<T> {
  readonly #look: () => Promise<T>;
  readonly #now: () => number;
  #under: Promise<T> | undefined;
  #last: { found: T; until: number } | undefined;

  /** @param now a monotonic clock, in milliseconds */
  constructor(look: () => Promise<T>, now: () => number = () => performance.now()) {
    this.#look = look;
    this.#now = now;
  }

  /** What is found now, or was a moment ago. One that fails is told to all who wait for it, and kept for nobody else. */
  get(): Promise<T> {
    if (this.#last !== undefined && this.#now() < this.#last.until) return Promise.resolve(this.#last.found);
    if (this.#under !== undefined) return this.#under;
    const begun = this.#now();
    const look = this.#look().then((found) => {
      const took = this.#now() - begun;
      if (this.#under === look && took >= CHEAP_MS) {
        this.#last = { found, until: this.#now() + Math.min(REST * took, LONGEST_MS) };
      }
      return found;
    }).finally(() => {
      if (this.#under === look) this.#under = undefined;
    });
    return this.#under = look;
  }

  /** What was found is wrong by now: whoever asks next gets a new look, also while one is under way. */
  forget(): void {
    this.#last = undefined;
    this.#under = undefined;
  }
}
