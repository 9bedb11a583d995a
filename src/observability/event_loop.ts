/** Measures how late timers fire: the delay of all work on the event loop. */
import { Histogram } from "./histogram.ts";

const SAMPLE_MS = 250;
const RECENT_SAMPLES = 120;

export class EventLoopDelay {
  /** Seconds, since the start. */
  readonly delays = new Histogram([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]);
  #recent: number[] = [];
  #timer: ReturnType<typeof setInterval> | undefined;

  start(): void {
    let expected = performance.now() + SAMPLE_MS;
    this.#timer ??= setInterval(() => {
      const now = performance.now();
      const delay = Math.max(0, now - expected) / 1000;
      this.delays.observe(delay);
      this.#recent.push(delay);
      if (this.#recent.length > RECENT_SAMPLES) this.#recent.shift();
      expected = now + SAMPLE_MS;
    }, SAMPLE_MS);
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  /** Maximum of the last 30 s, in seconds. */
  recentMax(): number {
    return Math.max(0, ...this.#recent);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
