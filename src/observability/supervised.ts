/**
 * Runs the loop of a side service until it ends by itself: if it throws, the error is logged and
 * the loop started again, with back-off.
 */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { pause } from "../wire/http/waiting.ts";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** After this time without an error, the next wait is the shortest again. */
const CALM_MS = 300_000;

/**
 * Never rejects. @param loop continues where it was if it is called again @param firstWaitMs for
 * tests
 */
export async function supervised(
  what: string,
  loop: () => Promise<void>,
  { log, signal, firstWaitMs = FIRST_WAIT_MS }: {
    log: Logger;
    signal: AbortSignal;
    firstWaitMs?: number | undefined;
  },
): Promise<void> {
  let wait = firstWaitMs;
  while (!signal.aborted) {
    const begun = performance.now();
    try {
      return await loop();
    } catch (error) {
      if (signal.aborted) return;
      if (performance.now() - begun > CALM_MS) wait = firstWaitMs;
      log.error(
        { service: what, error: messageOf(error), retry_ms: wait },
        "a side service failed and is started again",
      );
      await pause(wait, signal);
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
  }
}
