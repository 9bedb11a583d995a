/** The windows of proxies: how many unacknowledged bytes of its journal each may send. Pure. */
import type { ConnectedProxy } from "../../observability/activity.ts";

/**
 * Sum of the windows of all proxies. Those that are behind share it: a hundred full windows would
 * be most of a daemon's memory. Each begins with a small window, because all of them may connect at
 * once.
 */
const ALL_WINDOWS_BYTES = 16 << 20;
const FIRST_WINDOW_BYTES = 256 << 10;
const LEAST_WINDOW_BYTES = 64 << 10;

/** @param windowBytes limit on one proxy's window */
export function firstWindow(windowBytes: number): number {
  return Math.min(windowBytes, FIRST_WINDOW_BYTES);
}

/**
 * The current window of each proxy. A proxy counts as behind if its backlog is larger than the
 * smallest window: an incomplete line, which may wait for its newline for hours, must not reduce
 * the windows of others.
 * @param windowBytes limit on one proxy's window
 */
export function windowOf(windowBytes: number, proxies: Iterable<ConnectedProxy>): number {
  let behind = 0;
  for (const { journalSize, position } of proxies) {
    if (journalSize - position > LEAST_WINDOW_BYTES) behind++;
  }
  const part = Math.floor(ALL_WINDOWS_BYTES / Math.max(1, behind));
  return Math.min(windowBytes, Math.max(LEAST_WINDOW_BYTES, part));
}
