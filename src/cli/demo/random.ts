/** A seeded random number generator (sfc32) whose state can be saved, so that a resumed run continues exactly. */
export type RandomState = [number, number, number, number];

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: number | RandomState) {
    if (typeof seed === "number") {
      [this.#a, this.#b, this.#c, this.#d] = [0x9e3779b9, 0x243f6a88, seed | 0, 1];
      // Similar seeds give similar states: discard the first outputs.
      for (let i = 0; i < 16; i++) this.next();
    } else {
      [this.#a, this.#b, this.#c, this.#d] = seed;
    }
  }

  get state(): RandomState {
    return [this.#a, this.#b, this.#c, this.#d];
  }

  /** Uniform in [0, 1). */
  next(): number {
    const t = (this.#a + this.#b + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + t) | 0;
    return (t >>> 0) / 4294967296;
  }

  /** Standard normal (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
}
