/**
 * Repeats rounds of work, one at a time: soon after something has happened, at longer and longer
 * intervals otherwise. Milliseconds of a monotonic clock.
 */
export interface RoundsOptions {
  /** @returns whether something has changed or is about to: then the next round follows soon */
  work: () => Promise<boolean>;
  /** The round is tried again. */
  onError: (error: unknown) => void;
  /** Pause between two rounds. */
  pauseMs: { least: number; most: number };
  clock: () => number;
}

export class Rounds {
  readonly #options: RoundsOptions;
  #stage: "before_start" | "open" | "closed" = "before_start";
  #round: Promise<void> | undefined;
  /** Something has happened during the round. */
  #again = false;
  #beganAt = -Infinity;
  #pauseMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: RoundsOptions) {
    this.#options = options;
    this.#pauseMs = options.pauseMs.least;
  }

  get closed(): boolean {
    return this.#stage === "closed";
  }

  start(): void {
    this.#stage = "open";
    this.soon();
  }

  /** Something has happened. */
  soon(): void {
    if (this.#stage !== "open") return;
    const { pauseMs: { least }, clock } = this.#options;
    this.#pauseMs = least;
    if (this.#round !== undefined) {
      this.#again = true;
      return;
    }
    this.#after(Math.max(0, this.#beganAt + least / 4 - clock()));
  }

  /** Resolves when no round is in progress. */
  async close(): Promise<void> {
    this.#stage = "closed";
    clearTimeout(this.#timer);
    await this.#round;
  }

  #after(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#round = this.#go().finally(() => {
        this.#round = undefined;
        if (!this.closed) this.#after(this.#again ? this.#options.pauseMs.least : this.#pauseMs);
      });
    }, ms);
  }

  async #go(): Promise<void> {
    const { work, onError, pauseMs: { least, most }, clock } = this.#options;
    this.#again = false;
    this.#beganAt = clock();
    try {
      this.#pauseMs = await work() ? least : Math.min(most, this.#pauseMs * 2);
    } catch (error) {
      onError(error);
    }
  }
}
