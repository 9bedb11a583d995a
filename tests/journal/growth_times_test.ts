import assert from "node:assert/strict";
import { GrowthTimes } from "../../src/journal/growth_times.ts";

Deno.test("growth times: a late line has the time at which the journal grew over it, a recent one none", () => {
  const times = new GrowthTimes();
  assert.equal(times.timeAt(10, 1e6), "");
  for (const [end, at] of [[100, 10_000], [100, 10_500], [250, 11_000], [300, 20_000]] as const) {
    times.add(end, at);
  }
  const now = 20_900;
  assert.deepEqual([1, 100, 101, 250].map((position) => times.timeAt(position, now)), [
    ...["10000000000", "10000000000", "11000000000", "11000000000"],
  ]);
  assert.equal(times.timeAt(300, now), "", "less than a second ago");
  assert.equal(times.timeAt(301, now), "", "not seen yet");
  times.forget(100);
  assert.equal(times.timeAt(50, now), "11000000000");
});

Deno.test("growth times: any number of samples is bounded, and no line gets a time before it was written", () => {
  const times = new GrowthTimes();
  for (let i = 1; i <= 50_000; i++) times.add(i * 10, i * 100);
  for (let i = 1; i < 40_000; i += 997) {
    const ms = Number(times.timeAt(i * 10, 1e9)) / 1e6;
    assert.ok(ms >= i * 100, `${i}: ${ms}`);
  }
  assert.ok(Number(times.timeAt(499_990, 1e9)) / 1e6 <= 49_999 * 100 + 1000);
});
