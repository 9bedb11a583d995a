/**
 * When something is due again: at longer and longer intervals while it finds nothing new.
 * Milliseconds.
 */
export class Pace {
  readonly #bounds: { least: number; most: number };
  #ms: number;
  /** Infinity: never again. */
  due = 0;

  constructor(bounds: { least: number; most: number }) {
    this.#bounds = bounds;
    this.#ms = bounds.least;
  }

  done(now: number, foundNew: boolean): void {
    this.#ms = foundNew ? this.#bounds.least : Math.min(this.#ms * 2, this.#bounds.most);
    this.later(now);
  }

  /** It could not be done now. */
  later(now: number): void {
    this.due = now + this.#ms;
  }
}
