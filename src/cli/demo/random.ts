/**
 * A seeded random number generator (mulberry32) whose state can be saved, so that a resumed run
 * continues exactly.
 */
export class Random {
  #state: number;

  /** @param state a seed, or the state of another generator */
  constructor(state: number) {
    this.#state = state | 0;
  }

  get state(): number {
    return this.#state;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** Standard normal (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
}
