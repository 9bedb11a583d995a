import assert from "node:assert/strict";
import { placeable } from "../../../src/readers/format/placeable.ts";
import type { ScalarRecord } from "../../../src/readers/format/tracker_records.ts";

const scalar = (tag: string, step: number | undefined): ScalarRecord => ({
  ...{ kind: "scalar", tag, step, wallTime: undefined, value: 1 },
});

Deno.test("points without a place: a negative step, one that is no number, and a name that is too long are named", () => {
  const taken = [scalar("a", 0), scalar("a", undefined), scalar("x".repeat(250), 3)];
  const left = [scalar("a", -1), scalar("a", NaN), scalar("a", 0.5), scalar("x".repeat(251), 3)];
  const { records, problems } = placeable([...taken, ...left], 7);
  assert.deepEqual(records, taken);
  assert.deepEqual(problems.map(({ what, at }) => [what, at]), [
    ["no_step", 7],
    ["no_step", 7],
    ["no_step", 7],
    ["no_name", 7],
  ]);
  assert.match(problems[0]!.detail, /left out: .* \(as in "a" at -1\)/);
  assert.match(problems[3]!.detail, /250 characters.*shorten/);
  assert.deepEqual(placeable(taken, 0), { records: taken, problems: [] });
});
