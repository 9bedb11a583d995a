/** The size of batches, when they are sent, and the bound on unacknowledged bytes. */
import { JOURNAL_BOUNDS } from "../../journal/journal.ts";

/** Lines that arrive within this time share a batch. */
export const FLUSH_MS = 10;

/**
 * A batch may have this size however small the window is: many small batches would cost more than
 * they save.
 */
const LEAST_BATCH_BYTES = 64 << 10;

/**
 * A source that grows by this much between two reads is polled, because notifications would cost
 * more.
 */
export const BUSY_BYTES = 4096;

/**
 * Unacknowledged bytes ≤ window + one batch. The size is a part of the whole window, not of its
 * free rest: an acknowledgement frees only the size of its batch, so batches cut to the free rest
 * would become small and stay small.
 */
export function batchBytes(windowBytes: number): number {
  return Math.min(JOURNAL_BOUNDS.bytes, Math.max(LEAST_BATCH_BYTES, windowBytes >> 2));
}

/** Whether a batch is so small that the next one should wait for more. */
export function isSmall(batch: { lines: number; bytes: number }, most: number): boolean {
  return batch.lines < JOURNAL_BOUNDS.lines && batch.bytes < most / 2;
}
