/**
 * Throttles by a duty cycle: in every period the worker runs for a share of the time and is stopped
 * for the rest. The share follows the measured rate, so a worker slower than its limit is never
 * stopped.
 */

/** Short, so that neither the worker's own timeouts nor people notice it. */
const PERIOD_MS = 100;
/** Below this, stopping and continuing take longer than the worker runs. */
const MIN_RUN_MS = 1;
/** If even the shortest run is too much, the stop is made longer, up to this period. */
const MAX_PERIOD_MS = 5000;
const MEASURE_MS = 500;
const MEMORY_BYTES = 1 << 20;
const MIN_SHARE = MIN_RUN_MS / MAX_PERIOD_MS;

/**
 * The next share of time. @param measured steps a second in the last measurement; 0: not known yet.
 */
export function nextShare(share: number, measured: number, limit: number): number {
  // A worker that writes in blocks shows no steps for a while and then many, so the share follows
  // either only slowly.
  const factor = measured === 0 ? 1.5 : Math.min(2, Math.max(0.5, limit / measured));
  const next = Math.min(1, Math.max(MIN_SHARE, share * factor));
  return next > 0.98 ? 1 : next;
}

/** Divides a period by a share. */
export function slices(share: number): { runMs: number; stopMs: number } {
  const period = Math.min(MAX_PERIOD_MS, Math.max(PERIOD_MS, MIN_RUN_MS / share));
  const runMs = Math.max(MIN_RUN_MS, share * period);
  return { runMs, stopMs: Math.max(0, period - runMs) };
}

export interface DutyCycleOptions {
  /** Called with false to stop the worker and with true to continue it. */
  run: (run: boolean) => void;
  /**
   * Bytes that the worker has written; undefined while something else holds it, so that nothing can
   * be measured.
   */
  written: () => number | undefined;
}

export class DutyCycle {
  readonly #options: DutyCycleOptions;
  #limit = 0;
  #share = 1;
  /**
   * Steps read recently. The worker may be far ahead of the reader, so its rate is computed from
   * its bytes.
   */
  #readSteps = 0;
  #readBytes = 0;
  #measuredAt = 0;
  #measuredSize: number | undefined;
  #running = true;
  #slice: ReturnType<typeof setTimeout> | undefined;
  #measure: ReturnType<typeof setInterval> | undefined;

  constructor(options: DutyCycleOptions) {
    this.#options = options;
  }

  /** @param hz Steps a second; 0 lifts the limit. */
  limit(hz: number): void {
    if (hz === this.#limit) return;
    this.#limit = hz;
    clearTimeout(this.#slice);
    clearInterval(this.#measure);
    if (hz === 0) {
      this.#share = 1;
      this.#set(true);
      return;
    }
    this.#measuredSize = undefined;
    this.#measure = setInterval(() => this.#adjust(), MEASURE_MS);
    this.#run();
  }

  /** `bytes` of the journal contained so many `steps`. */
  seen(steps: number, bytes: number): void {
    if (this.#readBytes > MEMORY_BYTES) {
      this.#readSteps /= 2;
      this.#readBytes /= 2;
    }
    this.#readSteps += steps;
    this.#readBytes += bytes;
  }

  #adjust(): void {
    const now = performance.now();
    const size = this.#options.written();
    const before = this.#measuredSize;
    const seconds = (now - this.#measuredAt) / 1000;
    this.#measuredSize = size;
    this.#measuredAt = now;
    if (size === undefined || before === undefined || this.#readBytes === 0) return;
    const measured = (size - before) / seconds * this.#readSteps / this.#readBytes;
    const ran = this.#share;
    this.#share = nextShare(ran, measured, this.#limit);
    if (ran === 1 && this.#share < 1) this.#run();
  }

  #run(): void {
    clearTimeout(this.#slice);
    this.#set(true);
    // A worker within its limit is not stopped.
    if (this.#share < 1) this.#slice = setTimeout(() => this.#stop(), slices(this.#share).runMs);
  }

  #stop(): void {
    this.#set(false);
    this.#slice = setTimeout(() => this.#run(), slices(this.#share).stopMs);
  }

  #set(run: boolean): void {
    if (run === this.#running) return;
    this.#running = run;
    this.#options.run(run);
  }
}
