/** Applies the daemon's retention policy now and then. */
import { messageOf } from "../base/errors.ts";
import { sweep, type SweepOptions } from "../registry/retention/sweep.ts";

/** One pass reads every run's row, and with a size limit every file's size. */
const INTERVAL_MS = 10 * 60_000;

export interface RetentionSweeps {
  /** Ends after the deletion under way. */
  close(): Promise<void>;
}

export function startRetention(options: SweepOptions): RetentionSweeps {
  let running: Promise<void> = Promise.resolve();
  const pass = () => {
    running = running.then(async () => {
      try {
        await sweep(options);
      } catch (error) {
        options.log.warn(
          { error: messageOf(error) },
          "the retention policy could not be applied; the next pass tries again",
        );
      }
    });
  };
  pass();
  const timer = setInterval(pass, INTERVAL_MS);
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}
