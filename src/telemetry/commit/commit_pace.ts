/**
 * Decides when a group of batches is committed.
 * A commit writes whole pages, some 20 KB for a single step. So writes are budgeted: PAID_PER_BYTE
 * bytes of log for each byte of stored output, and FREE_BYTES_PER_SECOND in addition. Within the
 * budget a batch is committed at once; beyond it, batches wait for each other, for at most
 * LONGEST_WAIT_MS. So a large batch or an occasional line never waits, and many small batches share
 * commits. Pure: the caller passes the time (milliseconds, monotonic).
 */
import type { IngestBatch } from "../../records/ingest_batch.ts";

/** Bytes per page in the write-ahead log. */
const FRAME_HEADER = 24;
/**
 * Pages that every commit writes, shared by all runs: counters, journal positions, summaries of
 * series, blocks and their index.
 */
const SHARED_PAGES = 6;
const FREE_BYTES_PER_SECOND = 48 << 10;
const PAID_PER_BYTE = 3;
/** Bound on the saved budget: the first records of a run after a silence are committed at once. */
const MOST_SAVED = 128 << 10;
/** Bound on the debt: because the wait is bounded, a debt may never be paid. */
const MOST_OWED = 96 << 10;
export const LONGEST_WAIT_MS = 500;

export class CommitPace {
  /** Bytes of log beyond the budget; negative: saved budget. */
  #owed = -MOST_SAVED;
  #at: number;

  /** @param pageBytes page size of the database */
  constructor(now: number, private readonly pageBytes: number) {
    this.#at = now;
  }

  /**
   * How long a group may still wait. @param since when its first batch arrived @param bytes of
   * output in it
   */
  waitMs(now: number, since: number, bytes: number): number {
    this.#pass(now);
    const owed = this.#owed - PAID_PER_BYTE * bytes;
    if (owed <= 0) return 0;
    return Math.max(
      0,
      Math.min(since + LONGEST_WAIT_MS - now, owed / FREE_BYTES_PER_SECOND * 1000),
    );
  }

  /** @param bytes of output in the group @param pages that belong to single runs */
  committed(now: number, bytes: number, pages: number): void {
    this.#pass(now);
    const cost = (SHARED_PAGES + pages) * (this.pageBytes + FRAME_HEADER) + bytes;
    this.#owed = Math.min(
      MOST_OWED,
      Math.max(-MOST_SAVED, this.#owed + cost - PAID_PER_BYTE * bytes),
    );
  }

  #pass(now: number): void {
    this.#owed = Math.max(
      -MOST_SAVED,
      this.#owed - (now - this.#at) * FREE_BYTES_PER_SECOND / 1000,
    );
    this.#at = now;
  }
}

/** Pages at the ends of tables that only this run writes. */
export function pagesOf({ steps, episodes, events }: IngestBatch): number {
  const metrics = steps.infoJson !== undefined || events.length > 0 ||
    episodes.some((one) => one.metadataJson !== "");
  return (episodes.length > 0 ? 1 : 0) + (events.length > 0 ? 1 : 0) + (metrics ? 2 : 0);
}
