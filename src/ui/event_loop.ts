/** How late timers are: the longest delay of the event loop over the last half minute. */
const SAMPLE_MS = 250;
const SAMPLES = 120;

export class EventLoopDelay {
  readonly #delays: number[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  #expected = performance.now() + SAMPLE_MS;

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#delays.push(Math.max(0, now - this.#expected));
      if (this.#delays.length > SAMPLES) this.#delays.shift();
      this.#expected = now + SAMPLE_MS;
    }, SAMPLE_MS);
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  /** Seconds. */
  max(): number {
    return Math.max(0, ...this.#delays) / 1000;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
