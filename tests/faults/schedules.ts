/** A share of the test command's fifty schedules; `deno task faults` runs any number of others. */
import assert from "node:assert/strict";
import { runSchedule } from "./run_schedule.ts";

const AT_ONCE = 3;

/** Carries out the schedules of seeds `first` … `first + count - 1`. @throws AssertionError telling what each one found */
export async function schedulesHold(first: number, count: number): Promise<void> {
  let next = first;
  const failed: string[] = [];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < first + count) {
      const { seed, findings, evidence } = await runSchedule(next++);
      if (findings.length > 0) failed.push(`seed ${seed}:\n  ${findings.join("\n  ")}\n${evidence}`);
    }
  }));
  assert.equal(failed.length, 0, failed.join("\n\n"));
}
