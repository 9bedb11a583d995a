/** Arithmetic of the page's charts and table, without a browser. */
import assert from "node:assert/strict";
import { ascending, smooth, spread } from "../../src/ui/client/smoothing.js";

Deno.test("chart: points stored together are spread between the steps around them; a restart may go back", () => {
  assert.deepEqual(spread([10, 10, 30, 30, 30, 30, 5]), [5, 10, 15, 20, 25, 30, 5]);
  assert.deepEqual(spread([1, 2, 3]), [1, 2, 3]);
  assert.deepEqual(spread([0, 0]), [0, 0]);
  assert.deepEqual(spread([]), []);
});

Deno.test("chart: x always ascends, a smoothed line starts where its values do and passes over holes", () => {
  const xs = ascending([1, 5, 3, 3, 9]);
  assert.ok(xs.every((x, i) => i === 0 || x > xs[i - 1]!), String(xs));
  assert.deepEqual(smooth([4, 4, null, 4], 0.9).map((y) => y === null ? null : Math.round(y * 1e9) / 1e9), [
    4,
    4,
    null,
    4,
  ]);
});
