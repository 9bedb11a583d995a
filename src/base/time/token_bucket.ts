/**
 * A rate limit with bursts: the bucket fills at `rate` tokens per second up to `burst`, and each
 * request takes one.
 */
export class TokenBucket {
  readonly #rate: number;
  readonly #burst: number;
  #tokens: number;
  #atMs: number;

  constructor(rate: number, burst: number, nowMs: number) {
    this.#rate = rate;
    this.#burst = burst;
    this.#tokens = burst;
    this.#atMs = nowMs;
  }

  /**
   * Takes a token. A refused request takes none, so that frequent requests do not delay the next
   * token.
   *
   * @param nowMs of a monotonic clock
   * @returns undefined if a token was available, else the milliseconds until one is
   */
  take(nowMs: number): number | undefined {
    this.#tokens = Math.min(this.#burst, this.#tokens + (nowMs - this.#atMs) / 1000 * this.#rate);
    this.#atMs = nowMs;
    if (this.#tokens >= 1) {
      this.#tokens--;
      return undefined;
    }
    return Math.ceil((1 - this.#tokens) / this.#rate * 1000);
  }
}
