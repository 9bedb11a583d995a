/** Limit of the backlog, beyond which the worker is held. */
import { disk } from "../../os/host/host_resources.ts";

const DEFAULT_BYTES = 10 * 2 ** 30;
/** The default limit is never below this. */
export const LEAST_BACKLOG_BYTES = 1 << 20;
const SHARE_OF_FREE_DISK = 0.05;

/**
 * @param requested 0 or undefined: 10 GiB, or 5 % of the free space at the journal, whichever is
 * less.
 */
export function backlogLimit(requested: number | undefined, directory: string): number {
  if (requested !== undefined && requested > 0) return requested;
  const { total, available } = disk(directory);
  return total === 0
    ? DEFAULT_BYTES
    : Math.min(DEFAULT_BYTES, Math.max(LEAST_BACKLOG_BYTES, available * SHARE_OF_FREE_DISK));
}

/** The worker is held from the limit on, until the backlog is below half of it. */
export function isOverBacklog(held: boolean, backlog: number, limit: number): boolean {
  return held ? backlog >= limit / 2 : backlog > limit;
}
