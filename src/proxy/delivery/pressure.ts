/** Measures reasons to hold a worker (backpressure): the backlog and the free space. */
import { FreeSpacePoll, freeSpaceText } from "../../os/host/free_space.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import { backlogLimit, LEAST_BACKLOG_BYTES } from "../state/backlog.ts";
import type { Event, Hold } from "../state/events_and_effects.ts";
import type { Journal } from "../../journal/journal.ts";

/** Interval of measurements. */
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
   * @param holds whether the worker is held for this reason: it continues only when there is a
   * little more than the minimum
   */
  measure(acknowledged: number, holds: (why: Hold) => boolean): Event[] {
    try {
      return [...this.#backlog(acknowledged, holds("backlog")), ...this.#freeSpace(holds("disk"))];
    } catch (error) {
      if (!isShortage(error)) throw error;
      // No free descriptor to measure with: next time.
      return [];
    }
  }

  #backlog(acknowledged: number, held: boolean): Event[] {
    const bytes = this.#journal.size() - acknowledged - this.#journal.unended;
    // The default limit depends on the disk; below its minimum the disk need not be asked.
    if (!this.#givenLimit && !held && bytes < LEAST_BACKLOG_BYTES) return [];
    this.#limit ??= backlogLimit(this.#givenLimit, this.#directory);
    return [{ tag: "backlog_measured", bytes, limit: this.#limit }];
  }

  /**
   * The daemon has checked free space just before the start, and checking loads a Node module,
   * which takes as long as the rest of the start. So for a worker that writes little, the first
   * check comes later, when others that start at the same time have started.
   */
  #freeSpace(held: boolean): Event[] {
    const early = performance.now() < this.#startedAt + FREE_SPACE_AFTER_MS;
    if (early && this.#journal.size() < FREE_SPACE_AFTER_BYTES) return [];
    const space = this.#space.poll(this.#directory, held);
    return [{
      tag: "free_space_measured",
      enough: space.enough,
      text: freeSpaceText(this.#directory, space),
    }];
  }
}
