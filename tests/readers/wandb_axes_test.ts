/**
 * What is remembered of a W&B file's metrics stays small: a reader with a large state is given up.
 */
import { strict as assert } from "node:assert";
import { WandbAxes } from "../../src/readers/wandb/wandb_axes.ts";

const MOST_STATE = 56 << 10;
const name = (i: number) => `train/layers.${i}/`.padEnd(120, "x");

Deno.test("wandb axes: many long names make no large state, and a summary that only repeats them no results", () => {
  let axes = new WandbAxes();
  for (let i = 0; i < 2000; i++) {
    axes.define(name(i), `${name(i)}/step`);
    axes.result(name(i), "v".repeat(150));
    axes.row((step) => step.length);
    if (i === 100) axes = new WandbAxes(JSON.parse(JSON.stringify(axes.state())));
    assert.ok(JSON.stringify(axes.state()).length < MOST_STATE);
  }
  for (let i = 0; i < 2000; i++) axes.logged(name(i));
  assert.ok(JSON.stringify(axes.state()).length < MOST_STATE);
  axes = new WandbAxes(JSON.parse(JSON.stringify(axes.state())));
  axes.result(name(1999), 1);
  assert.deepEqual(axes.takeResults(), []);
});

Deno.test("wandb axes: what only the summary has is a result, once", () => {
  const axes = new WandbAxes();
  axes.logged("loss");
  axes.result("loss", 1);
  axes.result("best", 2);
  axes.result("best", 3);
  assert.deepEqual(axes.takeResults(), [["best", 3]]);
  assert.deepEqual(axes.takeResults(), []);
});
