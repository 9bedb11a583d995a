/** One timer for all runs: the next tick is at the earliest requested time. */
export class Ticker {
  readonly #tick: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueAt = Infinity;
  #running = false;

  constructor(tick: () => void) {
    this.#tick = tick;
  }

  start(): void {
    this.#running = true;
  }

  stop(): void {
    this.#running = false;
    clearTimeout(this.#timer);
  }

  /** Ticks within this time; does nothing before the start and after the stop. */
  within(ms: number): void {
    const at = performance.now() + ms;
    if (!this.#running || at >= this.#dueAt) return;
    clearTimeout(this.#timer);
    this.#dueAt = at;
    this.#timer = setTimeout(() => {
      this.#dueAt = Infinity;
      this.#tick();
    }, ms);
  }
}
