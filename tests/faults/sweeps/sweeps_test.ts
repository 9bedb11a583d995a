import assert from "node:assert/strict";
import { LONG_TESTS } from "../../harness/long.ts";
import { runSweepSchedule } from "./sweep_schedule.ts";

for (const seed of LONG_TESTS ? [1, 2, 3, 4] : [1, 2]) {
  Deno.test(`faults: a sweep makes each trial once and decides the same, whatever dies (seed ${seed})`, async () => {
    const { findings, evidence } = await runSweepSchedule(seed);
    assert.equal(findings.length, 0, `${findings.join("\n")}\n${evidence}`);
  });
}
