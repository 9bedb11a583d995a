import assert from "node:assert/strict";
import { RateMeter } from "../../src/base/time/rate.ts";

/** `hz` steps a second, a batch every 100 ms. */
function feed(meter: RateMeter, hz: number, fromMs: number, toMs: number): void {
  for (let now = fromMs + 100; now <= toMs; now += 100) meter.add(hz / 10, now);
}

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) <= expected * 0.05, `${actual} is not about ${expected}`);

Deno.test("rate: steps a second of the last five, and none when nothing comes", () => {
  const meter = new RateMeter();
  assert.equal(meter.perSecond(1000), 0);
  meter.add(1_000_000, 1000);
  feed(meter, 50, 1000, 3000);
  near(meter.perSecond(3000), 50);
  feed(meter, 50, 3000, 60_000);
  near(meter.perSecond(60_000), 50);
  assert.equal(meter.perSecond(70_000), 0);
});

Deno.test("rate: begun anew, what was before (a pause, another limit) is no part of it", () => {
  const meter = new RateMeter();
  feed(meter, 1000, 0, 10_000);
  meter.restart(10_000);
  feed(meter, 20, 10_000, 12_000);
  near(meter.perSecond(12_000), 20);
  meter.restart(100_000);
  feed(meter, 20, 100_000, 102_000);
  near(meter.perSecond(102_000), 20);
});
