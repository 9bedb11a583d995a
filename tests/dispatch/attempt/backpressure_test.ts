import assert from "node:assert/strict";
import { BACKLOG_BYTES, Backpressure } from "../../../src/dispatch/attempt/state/backpressure.ts";

Deno.test("backpressure: by default a slow reader changes nothing", () => {
  const policy = new Backpressure({ policy: "journal", minRateHz: 1, starvedSeconds: 1 });
  policy.starved(true);
  assert.equal(policy.check(100_000, 1000, BACKLOG_BYTES * 2), undefined);
});

Deno.test("backpressure: pause holds the run after a while of starvation, and lets it go at once", () => {
  const policy = new Backpressure({ policy: "pause", minRateHz: 1, starvedSeconds: 10 });
  policy.starved(true);
  assert.equal(policy.check(0, 1000, 0), undefined);
  assert.equal(policy.check(9999, 1000, 0), undefined);
  assert.deepEqual(policy.check(10_000, 1000, 0), { paused: true, maxRateHz: 0 });
  // A second reader keeps it held when the first has credits again.
  policy.starved(true);
  policy.starved(false);
  assert.equal(policy.check(11_000, 0, 0), undefined);
  policy.starved(false);
  assert.deepEqual(policy.check(11_001, 0, 0), { paused: false, maxRateHz: 0 });
});

Deno.test("backpressure: throttle halves the rate down to its floor, and doubles it back to freedom", () => {
  const policy = new Backpressure({ policy: "throttle", minRateHz: 300, starvedSeconds: 10 });
  policy.starved(true);
  assert.equal(policy.check(0, 1000, 0)?.maxRateHz, 500);
  assert.equal(policy.check(500, 500, 0), undefined);
  assert.equal(policy.check(1000, 500, 0)?.maxRateHz, 300);
  assert.equal(policy.check(2000, 300, 0), undefined);
  policy.starved(false);
  assert.equal(policy.check(3000, 300, 0)?.maxRateHz, 600);
  assert.equal(policy.check(4000, 600, 0)?.maxRateHz, 0);
  assert.equal(policy.check(5000, 1000, 0), undefined);
});

Deno.test("backpressure: output that is not stored is pressure too", () => {
  const policy = new Backpressure({ policy: "throttle", minRateHz: 1, starvedSeconds: 10 });
  assert.equal(policy.check(0, 1000, BACKLOG_BYTES), undefined);
  assert.equal(policy.check(1000, 1000, BACKLOG_BYTES + 1)?.maxRateHz, 500);
});
