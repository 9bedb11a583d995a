/**
 * Applies the daemon's retention policy and empties the trash, periodically and when the disk is
 * nearly full.
 */
import { messageOf } from "../base/errors.ts";
import { emptyForSpace, sweep, type SweepOptions } from "../registry/retention/retention_sweep.ts";

/** One pass reads every run's row, and with a size limit every file's size. */
const INTERVAL_MS = 10 * 60_000;
/** A look at the free space, while there is anything in the trash. */
const SPACE_MS = 5000;

export interface RetentionSweeps {
  /** Resolves after the current deletion. */
  close(): Promise<void>;
}

/**
 * @param hasSpace whether the state directory's disks have more free space than that below which
 * workers are held
 */
export function startRetention(
  options: SweepOptions & Parameters<typeof emptyForSpace>[0],
): RetentionSweeps {
  let running: Promise<void> = Promise.resolve();
  const pass = (work: () => Promise<unknown>) => () => {
    running = running.then(async () => {
      try {
        await work();
      } catch (error) {
        options.log.warn(
          { error: messageOf(error) },
          "cannot apply the retention policy; retrying in the next pass",
        );
      }
    });
  };
  const byPolicy = pass(() => sweep(options));
  byPolicy();
  const timers = [
    setInterval(byPolicy, INTERVAL_MS),
    setInterval(pass(() => emptyForSpace(options)), SPACE_MS),
  ];
  return {
    async close() {
      timers.forEach(clearInterval);
      await running;
    },
  };
}
