/** How much of a source a batch has, when it is sent, and how much may be unacknowledged. */
import { JOURNAL_BOUNDS } from "./journal.ts";

/** Lines that trickle in share a batch for so long. */
export const FLUSH_MS = 10;

/** Where the daemon names no window. */
export const DEFAULT_WINDOW_BYTES = 8 << 20;

/** A batch may have so much however small the window is: many small ones would cost more than they save. */
const LEAST_BATCH_BYTES = 64 << 10;

/** A source that grows by so much between two reads is polled; notifications of its growth would cost more. */
export const BUSY_BYTES = 4096;

/**
 * Unacknowledged bytes ≤ window + one batch.
 *
 * It is a part of the window, not what is free in it: an acknowledgement frees as much as its batch had, so that batches cut to
 * that would become small and stay so.
 */
export function batchBytes(windowBytes: number): number {
  return Math.min(JOURNAL_BOUNDS.bytes, Math.max(LEAST_BATCH_BYTES, windowBytes >> 2));
}

/** Whether a batch has so little that the next one waits for more. */
export function isSmall(batch: { lines: number; bytes: number }, most: number): boolean {
  return batch.lines < JOURNAL_BOUNDS.lines && batch.bytes < most / 2;
}
