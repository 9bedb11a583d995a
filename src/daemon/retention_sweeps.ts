/** Applies the daemon's retention policy periodically. */
import { messageOf } from "../base/errors.ts";
import { sweep, type SweepOptions } from "../registry/retention/retention_sweep.ts";

/** One pass reads every run's row, and with a size limit every file's size. */
const INTERVAL_MS = 10 * 60_000;

export interface RetentionSweeps {
  /** Resolves after the current deletion. */
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
          "cannot apply the retention policy; retrying in the next pass",
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
