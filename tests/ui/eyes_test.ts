/** Which runs of the list are drawn. */
import assert from "node:assert/strict";
import { drawnOf, type Eyes, FIRST_ROWS, toggledEyes } from "../../src/ui/client/runs/eyes.ts";
import { completions, isCondition, wordAt } from "../../src/ui/client/runs/filter_box.tsx";

const rows = Array.from({ length: 15 }, (_, i) => [`r${i}`]);
const eyes = (base: Eyes["base"], on: string[] = [], off: string[] = []): Eyes => ({
  base,
  on: new Set(on),
  off: new Set(off),
});

Deno.test("eyes: the first rows, all or none, with exceptions, up to a bound", () => {
  assert.deepEqual(drawnOf(rows, eyes("first"), 99), rows.slice(0, FIRST_ROWS).flat());
  assert.equal(drawnOf(rows, eyes("all"), 99).length, 15);
  assert.deepEqual(drawnOf(rows, eyes("none", ["r3"]), 99), ["r3"]);
  assert.deepEqual(drawnOf(rows, eyes("all"), 4), ["r0", "r1", "r2", "r3"]);
  assert.ok(drawnOf(rows, eyes("first", ["r14"], ["r0"]), 99).includes("r14"));
  assert.ok(!drawnOf(rows, eyes("first", ["r14"], ["r0"]), 99).includes("r0"));
  // A group is one row.
  assert.equal(drawnOf([["a", "b"], ...rows], eyes("first"), 99).length, FIRST_ROWS + 1);
});

Deno.test("eyes: a run that is hidden and shown again is as before for all others", () => {
  const hidden = toggledEyes(eyes("first"), ["r1"], false);
  assert.ok(!drawnOf(rows, hidden, 99).includes("r1"));
  assert.deepEqual(
    drawnOf(rows, toggledEyes(hidden, ["r1"], true), 99),
    drawnOf(rows, eyes("first"), 99),
  );
});

Deno.test("filter: conditions are told from names; names are completed where the caret is, not inside quotes", () => {
  assert.deepEqual(["ppo-lr", "lr>1", "not failed", "a and b"].map(isCondition), [
    false,
    true,
    true,
    true,
  ]);
  assert.deepEqual(wordAt("lr>1 and lea", 12), { from: 9, word: "lea" });
  assert.equal(wordAt('name="lea', 9).word, "");
  const names = ["metric.loss", "learning_rate", "metric.train/loss", "lr"];
  assert.deepEqual(completions("lo", names), ["metric.loss", "metric.train/loss"]);
  assert.deepEqual(completions("", names), []);
});
