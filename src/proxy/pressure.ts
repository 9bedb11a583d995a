/** Measures what may hold a worker (backpressure): how much is undelivered, and the free space. */
import { FreeSpacePoll, freeSpaceText } from "../os/free_space.ts";
import { isShortage } from "../os/shortage.ts";
import { backlogLimit, LEAST_BACKLOG_BYTES } from "./backlog.ts";
import type { Event, Hold } from "./events_and_effects.ts";
import type { Journal } from "./journal.ts";

/** How often it is measured. */
export const PRESSURE_POLL_MS = 1000;
const FREE_SPACE_AFTER_MS = 3000;
const FREE_SPACE_AFTER_BYTES = 1 << 20;

export class Pressure {
  readonly #directory: string;
  readonly #journal: Journal;
  /** 0 or undefined: the default. */
  readonly #givenLimit: number | undefined;
  readonly #startedAt = performance.now();
  readonly #space = new FreeSpacePoll();
  #limit: number | undefined;

  constructor(directory: string, journal: Journal, givenLimit: number | undefined) {
    this.#directory = directory;
    this.#journal = journal;
    this.#givenLimit = givenLimit;
  }

  /**
   * @param acknowledged bytes of the journal that are stored
   * @param holds whether the worker is held for this: it continues when there is a little more than is needed
   */
  measure(acknowledged: number, holds: (why: Hold) => boolean): Event[] {
    try {
      return [...this.#backlog(acknowledged, holds("backlog")), ...this.#freeSpace(holds("disk"))];
    } catch (error) {
      if (!isShortage(error)) throw error;
      // No descriptor to measure with: the next time.
      return [];
    }
  }

  #backlog(acknowledged: number, held: boolean): Event[] {
    const bytes = this.#journal.size() - acknowledged;
    // The default limit depends on the disk: below the least it can be there is no need to ask.
    if (!this.#givenLimit && !held && bytes < LEAST_BACKLOG_BYTES) return [];
    this.#limit ??= backlogLimit(this.#givenLimit, this.#directory);
    return [{ tag: "backlog_measured", bytes, limit: this.#limit }];
  }

  /**
   * The daemon has checked just before the start; and asking loads a module of Node's, which takes as long as all the rest of
   * the start. So a worker that writes little is first checked when others that start with it have started.
   */
  #freeSpace(held: boolean): Event[] {
    const early = performance.now() < this.#startedAt + FREE_SPACE_AFTER_MS;
    if (early && this.#journal.size() < FREE_SPACE_AFTER_BYTES) return [];
    const space = this.#space.poll(this.#directory, held);
    return [{ tag: "free_space_measured", enough: space.enough, text: freeSpaceText(this.#directory, space) }];
  }
}
