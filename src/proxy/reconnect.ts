/** How long the proxy waits before it connects again, when it considers a connection dead, and which answers are final. */
import type { Failure } from "./events_and_effects.ts";

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 2000;

/** How often daemon.json is polled meanwhile: a daemon that is started again has its proxies at once. */
export const ANNOUNCEMENT_POLL_MS = 200;

/** Between hello and welcome. */
export const WELCOME_TIMEOUT_MS = 15_000;

/** Without any message from the daemon for so long, with something unacknowledged, the connection is considered dead. */
export const ANSWER_TIMEOUT_MS = 15_000;

/** After so many refusals of its token in a row, and the worker's end, the proxy leaves. */
export const REFUSED_TOKEN_TRIES = 30;

/** A daemon may be away for hours: the first failure is logged, then every so many. */
export const LOGGED_FAILURES = 300;

/** @param failed connections that failed in a row, at least 1 */
export function delayAfter(failed: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failed - 1));
}

/** What a failed connection says about the attempt: it is over, the token is not accepted, or nothing. */
export function meaningOf({ code, message, announced }: Failure): "over" | "token_refused" | "nothing" {
  if (code === "unauthenticated" || code === "permission_denied") return "token_refused";
  if (code !== "failed_precondition" && code !== "not_found") return "nothing";
  // A daemon of another protocol will be replaced, or the proxy will be: the worker must not suffer from it.
  if (message.includes("mosaic-ingest/")) return "nothing";
  // Another daemon may have the port of one that is gone; that it does not know the run ends nothing.
  return announced ? "over" : "nothing";
}
