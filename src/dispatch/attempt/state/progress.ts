/** An attempt's progress and rate, and what its limits are measured by. */
import { RateMeter } from "../../../base/time/rate.ts";
import type { MISSING } from "../../../telemetry/blocks/failures.ts";
import type { RunState } from "../../../registry/lifecycle/lifecycle.ts";
import { toldPart } from "../../../readers/text/run_progress.ts";
import { type LimitReason, RunClock, type RunLimits } from "./limits.ts";

export class Progress {
  readonly clock: RunClock;
  readonly rate = new RateMeter();
  /** What the telemetry store lacks, for which the worker is held. */
  heldByStore: keyof typeof MISSING | undefined;
  /** The highest step of a metric of this attempt, as far as this daemon has stored it. */
  attemptStep = 0;
  /** How far the program says that it is, 0 to 1; null: unknown. */
  part: number | null = null;
  readonly #limits: RunLimits;
  #state: RunState;
  /** Steps of this attempt. */
  #steps: number;
  #metricStep: number | undefined;
  #journalSize = 0;

  /**
   * Times are milliseconds of a monotonic clock. @param usedMs time of the attempt counted by
   * earlier daemons
   */
  constructor(
    known: { limits: RunLimits; state: RunState; steps: number; now: number; usedMs: number },
  ) {
    this.#limits = known.limits;
    this.#state = known.state;
    this.#steps = known.steps;
    this.clock = new RunClock(known.now, known.usedMs);
    this.clock.pausedIs(known.state === "PAUSED", known.now);
  }

  /** The run's state in the registry. */
  get state(): RunState {
    return this.#state;
  }

  /** Bytes of the journal that the worker has written, as far as the proxy has reported. */
  get journalSize(): number {
    return this.#journalSize;
  }

  stateIs(state: RunState, now: number): void {
    // The rate after a pause includes neither the pause nor the time before it.
    if (state === "EXECUTING" && this.#state === "PAUSED") this.rate.restart(now);
    this.#state = state;
    this.clock.pausedIs(state === "PAUSED", now);
  }

  /** The worker or its proxy is alive; if the journal has grown, there is new output. */
  alive(journalSize: number, now: number): void {
    if (journalSize > this.#journalSize) {
      this.#journalSize = journalSize;
      this.clock.output(now);
    } else {
      this.clock.signOfLife(now);
    }
  }

  /**
   * @param late the batch was written before this connection, so it says nothing about the current
   * rate
   */
  delivered(steps: number, late: boolean, now: number): void {
    this.#steps += steps;
    if (late) this.rate.restart(now);
    else if (steps > 0) this.rate.add(steps, now);
  }

  /** The highest step of a metric. If a run records no steps, its rate is measured by this. */
  metricStepReached(step: number, now: number): void {
    if (this.#metricStep !== undefined && step > this.#metricStep) {
      this.rate.add(step - this.#metricStep, now);
    }
    this.#metricStep = step;
  }

  /** The program may have said how far it is. */
  tells(events: readonly { kind: string; dataJson: string }[]): void {
    const part = toldPart(events);
    if (part !== undefined) this.part = part;
  }

  /** Telemetry that did not come through the journal (the original's Publish RPCs). */
  published(steps: number, now: number): void {
    this.delivered(steps, false, now);
    this.clock.output(now);
  }

  /** The limit that is exceeded, if any. */
  exceeded(now: number): LimitReason | undefined {
    return this.clock.exceeded(
      this.#state,
      this.#limits,
      Math.max(this.#steps, this.attemptStep),
      now,
    );
  }
}
