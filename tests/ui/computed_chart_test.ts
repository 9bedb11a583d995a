/** Charts that are computed of others. */
import assert from "node:assert/strict";
import type { SeriesColumns } from "../../src/ui/api/page_json.ts";
import { chartExpression, computed } from "../../src/ui/client/charts/computed_chart.ts";

function columns(name: string, steps: number[], values: (number | "NaN")[]): SeriesColumns {
  const all = <T>(one: T) => steps.map(() => one);
  return {
    ...{ name, first_x: steps.map((_, i) => i + 1), last_x: steps.map((_, i) => i + 1) },
    ...{
      min: values,
      max: values,
      mean: values,
      last: values,
      count: all(1),
      at: steps.map((s) => s * 1000),
    },
    ...{ step: steps, attempt: all(null), overwritten: all(false), damaged: all(false) },
  };
}

Deno.test("computed charts: names hold the signs themselves, and everything else is none", () => {
  const names = ["train/loss", "eval/loss", "a-b", "c"];
  assert.deepEqual(chartExpression("train/loss / eval/loss", names), {
    operator: "/",
    names: ["train/loss", "eval/loss"],
  });
  assert.deepEqual(chartExpression("a-b-c", names), { operator: "-", names: ["a-b", "c"] });
  assert.deepEqual(chartExpression(" max( a-b ) ", names), { operator: "max", names: ["a-b"] });
  for (const none of ["train/loss", "a - c", "max(d)", "c /", ""]) {
    assert.equal(chartExpression(none, names), undefined);
  }
});

Deno.test("computed charts: values meet at their steps; what has no number is a hole", () => {
  const a = columns("a", [1, 2, 3, 4], [10, 20, 30, 40]);
  // The other is logged at other steps: between them it is interpolated, outside of them unknown.
  const b = columns("b", [1, 3], [2, 0]);
  const of = (text: string) => computed(chartExpression(text, ["a", "b"])!, [a, b], text).mean;
  assert.deepEqual(of("a / b"), [5, 20, "NaN", "NaN"]);
  assert.deepEqual(of("a - b"), [8, 19, 30, "NaN"]);
});

Deno.test("computed charts: the running extreme never falls, also after a hole", () => {
  const a = columns("a", [1, 2, 3, 4], [3, "NaN", 1, 5]);
  const of = (text: string) => computed(chartExpression(text, ["a"])!, [a], text).mean;
  assert.deepEqual(of("max(a)"), [3, 3, 3, 5]);
  assert.deepEqual(of("min(a)"), [3, 3, 1, 1]);
});
