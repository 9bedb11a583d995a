/**
 * The test command's fault schedules, in five shares that run side by side: 3 schedules a share, or 10 with
 * MOSAIC_TEST_LONG=1. `deno task faults` runs any number of others.
 */
import assert from "node:assert/strict";
import { LONG_TESTS } from "../harness/long.ts";
import { runSchedule } from "./run_schedule.ts";

const SEEDS_PER_SHARE = 10;
const AT_ONCE = 3;

/** Runs the schedules of share 1 … 5. @throws AssertionError with the findings of each schedule that failed */
export async function shareHolds(share: number): Promise<void> {
  const first = (share - 1) * SEEDS_PER_SHARE + 1;
  const end = first + (LONG_TESTS ? SEEDS_PER_SHARE : 3);
  let next = first;
  const failed: string[] = [];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < end) {
      const { seed, findings, evidence } = await runSchedule(next++);
      if (findings.length > 0) failed.push(`seed ${seed}:\n  ${findings.join("\n  ")}\n${evidence}`);
    }
  }));
  assert.equal(failed.length, 0, failed.join("\n\n"));
}
