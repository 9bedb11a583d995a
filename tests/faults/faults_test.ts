/** Fifty seeded schedules of faults; `deno task faults` runs any number of others. */
import assert from "node:assert/strict";
import { runSchedule } from "./run_schedule.ts";

const FIRST_SEED = 1;
const SCHEDULES = 50;
const AT_ONCE = 4;

Deno.test("faults: 50 schedules lose nothing, repeat nothing, leave nothing behind", async () => {
  let next = FIRST_SEED;
  const failed: string[] = [];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < FIRST_SEED + SCHEDULES) {
      const { seed, findings, evidence } = await runSchedule(next++);
      if (findings.length > 0) failed.push(`seed ${seed}:\n  ${findings.join("\n  ")}\n${evidence}`);
    }
  }));
  assert.equal(failed.length, 0, failed.join("\n\n"));
});
