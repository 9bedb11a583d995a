/**
 * One round of work after the other: soon after something has happened, less and less often while nothing does. Never two at
 * a time. Milliseconds of a monotonic clock.
 */
export interface RoundsOptions {
  /** @returns whether something has changed, or is about to: then the next round comes soon */
  work: () => Promise<boolean>;
  /** The round is tried again. */
  onError: (error: unknown) => void;
  /** Between two rounds. */
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

  /** Resolves when no round is under way any more. */
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
