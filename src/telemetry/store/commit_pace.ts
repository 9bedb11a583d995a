/**
 * When a group of batches is committed. A commit writes whole pages, some 20 KB for a single step, so commits are paid
 * for: by the output that they store (PAID_PER_BYTE bytes of log for each byte of it) and by FREE_BYTES_PER_SECOND that
 * cost nothing. A batch is committed at once while that is not used up; beyond, batches wait for each other, for
 * LONGEST_WAIT_MS at most. So a large batch never waits, a line now and then does not, and many small ones share commits.
 *
 * Pure: the caller gives the time (milliseconds, monotonic).
 */
import type { IngestBatch } from "../ingest_batch.ts";

/** Of a page in the write-ahead log. */
const FRAME_HEADER = 24;
/** Pages that every commit writes, which runs share: counters, journal positions, summaries of series, blocks and their index. */
const SHARED_PAGES = 6;
const FREE_BYTES_PER_SECOND = 48 << 10;
const PAID_PER_BYTE = 3;
/** So many bytes may be saved up: the first records of a run that was silent are committed at once. */
const MOST_SAVED = 128 << 10;
/** So many may be owed: what nobody could pay, because the wait is bounded, is not carried on for ever. */
const MOST_OWED = 96 << 10;
export const LONGEST_WAIT_MS = 500;

export class CommitPace {
  /** Bytes of log that are not paid for yet; negative when some are saved up. */
  #owed = -MOST_SAVED;
  #at: number;

  /** @param pageBytes of the database */
  constructor(now: number, private readonly pageBytes: number) {
    this.#at = now;
  }

  /** How long a group may still wait. @param since when its first batch came @param bytes of output in it */
  waitMs(now: number, since: number, bytes: number): number {
    this.#pass(now);
    const owed = this.#owed - PAID_PER_BYTE * bytes;
    if (owed <= 0) return 0;
    return Math.max(0, Math.min(since + LONGEST_WAIT_MS - now, owed / FREE_BYTES_PER_SECOND * 1000));
  }

  /** @param bytes of output in the group @param pages that its runs have for themselves */
  committed(now: number, bytes: number, pages: number): void {
    this.#pass(now);
    const cost = (SHARED_PAGES + pages) * (this.pageBytes + FRAME_HEADER) + bytes;
    this.#owed = Math.min(MOST_OWED, Math.max(-MOST_SAVED, this.#owed + cost - PAID_PER_BYTE * bytes));
  }

  #pass(now: number): void {
    this.#owed = Math.max(-MOST_SAVED, this.#owed - (now - this.#at) * FREE_BYTES_PER_SECOND / 1000);
    this.#at = now;
  }
}

/** Pages at the ends of tables that are this run's alone. */
export function pagesOf({ steps, episodes, events }: IngestBatch): number {
  const metrics = steps.infoJson !== undefined || events.length > 0 || episodes.some((one) => one.metadataJson !== "");
  return (episodes.length > 0 ? 1 : 0) + (events.length > 0 ? 1 : 0) + (metrics ? 2 : 0);
}
