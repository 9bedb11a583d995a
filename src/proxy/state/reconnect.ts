/**
 * How long the proxy waits before it connects again, when it considers a connection dead, and which
 * answers are final.
 */
import type { Failure } from "./events_and_effects.ts";

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 2000;

/**
 * Poll interval of daemon.json meanwhile, so that proxies connect at once to a restarted daemon.
 */
export const ANNOUNCEMENT_POLL_MS = 200;

/** Time between hello and welcome. */
export const WELCOME_TIMEOUT_MS = 15_000;

/**
 * After so long without a message from the daemon, while something is unacknowledged, the
 * connection counts as dead.
 */
export const ANSWER_TIMEOUT_MS = 15_000;

/** After this many refusals of its token in a row, and the worker's end, the proxy exits. */
export const REFUSED_TOKEN_TRIES = 30;

/** A daemon may be away for hours: the first failure is logged, then one in this many. */
export const LOGGED_FAILURES = 300;

/** @param failed connections that failed in a row, at least 1 */
export function delayAfter(failed: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failed - 1));
}

/**
 * The meaning of a failed connection: the attempt is over, the token is refused, or nothing about
 * the attempt.
 */
export function meaningOf(
  { code, message, announced }: Failure,
): "over" | "token_refused" | "nothing" {
  if (code === "unauthenticated" || code === "permission_denied") return "token_refused";
  if (code !== "failed_precondition" && code !== "not_found") return "nothing";
  // One of the two programs will be replaced to match the other's protocol: the worker must not
  // suffer meanwhile.
  if (message.includes("mosaic-ingest/")) return "nothing";
  // Another daemon may have the port of one that has ended; that it does not know the run means
  // nothing.
  return announced ? "over" : "nothing";
}
