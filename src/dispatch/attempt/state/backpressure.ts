/**
 * Slows a run down for slow readers, if its config asks for it (`metadata.backpressure`). Pure,
 * driven by the supervisor's clock (milliseconds, monotonic).
 * - `journal`: never slows the run; the journal and the store take everything.
 * - `throttle`: under pressure the producer's rate is halved every second, down to `minRateHz`;
 *   without pressure it is doubled every second up to the rate at which throttling began, then the
 *   limit is lifted.
 * - `pause`: after `starvedSeconds` of pressure the run is held; it continues as soon as the
 *   pressure is gone.
 * Pressure is a reader that asked for credits and has none left, or more than BACKLOG_BYTES of
 * output that is not stored.
 */
import type { RunPlan } from "../../../config/plan.ts";

export const BACKLOG_BYTES = 64 << 20;
const STEP_MS = 1000;

export interface Hold {
  paused: boolean;
  /** Steps a second, a whole number; 0 is no limit. */
  maxRateHz: number;
}

const FREE: Hold = { paused: false, maxRateHz: 0 };

export class Backpressure {
  readonly #plan: RunPlan["backpressure"];
  #hold: Hold = FREE;
  #starvedReaders = 0;
  #pressureSince: number | undefined;
  #steppedAt = -Infinity;
  /** The rate at which throttling began. */
  #freeRate = 0;

  constructor(plan: RunPlan["backpressure"]) {
    this.#plan = plan;
  }

  get hold(): Hold {
    return this.#hold;
  }

  /** A reader has run out of credits, or has credits again, or has disconnected. */
  starved(isStarved: boolean): void {
    this.#starvedReaders = Math.max(0, this.#starvedReaders + (isStarved ? 1 : -1));
  }

  /** @param rateHz the run's steps a second @returns the hold, if it has changed */
  check(now: number, rateHz: number, backlogBytes: number): Hold | undefined {
    if (this.#plan.policy === "journal") return undefined;
    const pressure = this.#starvedReaders > 0 || backlogBytes > BACKLOG_BYTES;
    this.#pressureSince = pressure ? this.#pressureSince ?? now : undefined;
    const next = this.#plan.policy === "pause"
      ? this.#pause(now)
      : this.#throttle(now, pressure, rateHz);
    if (next.paused === this.#hold.paused && next.maxRateHz === this.#hold.maxRateHz) {
      return undefined;
    }
    return this.#hold = next;
  }

  #pause(now: number): Hold {
    const since = this.#pressureSince;
    const long = since !== undefined && now - since >= this.#plan.starvedSeconds * 1000;
    return { paused: long || (this.#hold.paused && since !== undefined), maxRateHz: 0 };
  }

  #throttle(now: number, pressure: boolean, rateHz: number): Hold {
    if (now - this.#steppedAt < STEP_MS) return this.#hold;
    const { maxRateHz } = this.#hold;
    // Without a rate (not measured yet, or old output is read after a restart) there is nothing to
    // halve.
    if (maxRateHz === 0 && (!pressure || rateHz === 0)) return this.#hold;
    this.#steppedAt = now;
    if (pressure) {
      if (maxRateHz === 0) this.#freeRate = rateHz;
      const from = maxRateHz === 0 ? rateHz : maxRateHz;
      return { paused: false, maxRateHz: Math.max(this.#plan.minRateHz, Math.floor(from / 2)) };
    }
    const doubled = maxRateHz * 2;
    return doubled >= this.#freeRate ? FREE : { paused: false, maxRateHz: doubled };
  }
}
