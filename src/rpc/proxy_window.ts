/** How many bytes of its journal a proxy may have under way. Pure. */
import type { ConnectedProxy } from "../observability/activity.ts";

/**
 * Journal bytes under way from all proxies together. Those that are behind share it: a hundred windows of their own would
 * be most of what a daemon has in memory. Each begins with little, because all of them may begin at once.
 */
const ALL_WINDOWS_BYTES = 16 << 20;
const FIRST_WINDOW_BYTES = 256 << 10;
const LEAST_WINDOW_BYTES = 64 << 10;

/** @param windowBytes the most that one proxy may have under way */
export function firstWindow(windowBytes: number): number {
  return Math.min(windowBytes, FIRST_WINDOW_BYTES);
}

/**
 * What each proxy may have under way just now. One is behind by more than the least that anybody may have under way: a
 * line that waits for its newline, for hours perhaps, is no reason for others to have less.
 * @param windowBytes the most that one may
 */
export function windowOf(windowBytes: number, proxies: Iterable<ConnectedProxy>): number {
  let behind = 0;
  for (const { journalSize, position } of proxies) if (journalSize - position > LEAST_WINDOW_BYTES) behind++;
  const part = Math.floor(ALL_WINDOWS_BYTES / Math.max(1, behind));
  return Math.min(windowBytes, Math.max(LEAST_WINDOW_BYTES, part));
}
