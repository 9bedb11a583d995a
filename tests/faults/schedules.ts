/**
 * The test command's fault schedules, in five shares that run side by side: 3 schedules a share, or
 * 6 with MOSAIC_TEST_LONG=1. `deno task faults` runs any number of others.
 */
import assert from "node:assert/strict";
import { LONG_TESTS } from "../harness/long.ts";
import { runSchedule } from "./run_schedule.ts";

/**
 * Of the first 50 seeds. Among them is every fault at least twice, with the fewest starts of a
 * daemon and few lines.
 */
export const SHORT_SHARES = [[1, 23, 39], [6, 31, 20], [7, 10, 12], [15, 40, 16], [
  18,
  42,
  49,
]] as const;
/** Further ones of each share with MOSAIC_TEST_LONG=1. */
const FURTHER = 3;
const AT_ONCE = 3;

/**
 * Runs the schedules of share 1 … 5. @throws AssertionError with the findings of each schedule that
 * failed
 */
export async function shareHolds(share: number): Promise<void> {
  const short: readonly number[] = SHORT_SHARES.flat();
  const others = Array.from({ length: 50 }, (_, i) => i + 1).filter((seed) =>
    !short.includes(seed)
  );
  const further = LONG_TESTS ? others.slice((share - 1) * FURTHER, share * FURTHER) : [];
  const seeds = [...SHORT_SHARES[share - 1]!, ...further];
  const failed: string[] = [];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let next; (next = seeds.shift()) !== undefined;) {
      const { seed, findings, evidence } = await runSchedule(next);
      if (findings.length > 0) {
        failed.push(`seed ${seed}:\n  ${findings.join("\n  ")}\n${evidence}`);
      }
    }
  }));
  assert.equal(failed.length, 0, failed.join("\n\n"));
}
