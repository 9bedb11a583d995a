/** A histogram with fixed bounds, as in Prometheus and OTLP. */
export interface HistogramSnapshot {
  /** Upper bounds (inclusive), ascending; a last bucket without a bound follows. */
  bounds: readonly number[];
  /** Observations per bucket, not cumulative; one more than there are bounds. */
  counts: readonly number[];
  sum: number;
  count: number;
}

export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  /** @param bounds ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  /** A negative value (the clock was set back) counts as 0. */
  observe(value: number): void {
    const counted = Math.max(0, value);
    let bucket = 0;
    while (bucket < this.#bounds.length && counted > this.#bounds[bucket]!) bucket++;
    this.#counts[bucket]!++;
    this.#sum += counted;
    this.#count++;
  }

  snapshot(): HistogramSnapshot {
    return { bounds: this.#bounds, counts: [...this.#counts], sum: this.#sum, count: this.#count };
  }
}
