/** Arithmetic of the page's charts and table, without a browser. */
import assert from "node:assert/strict";
import { ascending, pointsBetween, smooth, spread } from "../../src/ui/client/smoothing.ts";

Deno.test("chart: points stored together are spread between the steps around them; a restart may go back", () => {
  assert.deepEqual(spread([10, 10, 30, 30, 30, 30, 5]), [5, 10, 15, 20, 25, 30, 5]);
  assert.deepEqual(spread([1, 2, 3]), [1, 2, 3]);
  assert.deepEqual(spread([0, 0]), [0, 0]);
  assert.deepEqual(spread([]), []);
});

Deno.test("chart: x always ascends, a smoothed line starts where its values do and passes over holes", () => {
  const xs = ascending([1, 5, 3, 3, 9]);
  assert.ok(xs.every((x, i) => i === 0 || x > xs[i - 1]!), String(xs));
  const day = Date.UTC(2025, 0, 1) / 1000;
  const together = ascending([day, day, day, day + 0.01]);
  assert.ok(together[2]! < day + 0.001 && together[3] === day + 0.01, "points of one time stay there");
  assert.deepEqual(smooth([4, 4, null, 4], 0.9).map((y) => y === null ? null : Math.round(y * 1e9) / 1e9), [
    4,
    4,
    null,
    4,
  ]);
});

Deno.test("chart: a part of the time axis holds the points of the buckets that reach into it", () => {
  const single = { first_x: [1, 2, 3, 4], last_x: [1, 2, 3, 4] };
  assert.deepEqual(pointsBetween([0, 1, 90, 91], single, 0.5, 90), [2, 3]);
  assert.equal(pointsBetween([0, 1, 90, 91], single, 10, 80), undefined);
  // Of several points, some may lie anywhere since the bucket before.
  assert.deepEqual(pointsBetween([1, 90], { first_x: [1, 11], last_x: [10, 20] }, 10, 80), [11, 20]);
  assert.equal(pointsBetween([1, 90], { first_x: [1, 11], last_x: [10, 20] }, 91, 95), undefined);
  assert.equal(pointsBetween([], { first_x: [], last_x: [] }, 0, 1), undefined);
});
