/**
 * What early stopping saves against the full grid. A table says how many steps and how much time
 * each rule took, and which point it chose.
 */
import { strict as assert } from "node:assert";
import { EPOCHS, lossOf, play, points, SEEDS, trials } from "./learner.ts";

Deno.test("early stopping: the winner of the full grid, for a part of its steps and of its time", () => {
  const full = play(undefined);
  assert.equal(full.epochs, points.length * SEEDS * EPOCHS);
  const of = (part: number, whole: number) => `${Math.round(part / whole * 100)} %`;
  const rules = [
    "asha:max=81,min=3",
    "asha:max=81,min=3,over=point",
    "hyperband:max=81,min=3",
    "median:max=81,min=9",
  ];
  const rows = rules.map((words) => {
    const played = play(words);
    const { lr, batch } = points[played.winner]!;
    return {
      rule: words,
      stopped: `${played.stops.length} of ${trials.length}`,
      "steps saved": of(full.epochs - played.epochs, full.epochs),
      "time saved": of(full.time - played.time, full.time),
      "done after": of(played.now, full.now),
      winner: `lr=${lr} batch=${batch}`,
      "its loss": `${
        (100 * (lossOf(played.winner) / lossOf(full.winner) - 1)).toFixed(0)
      } % above the best`,
      played,
    };
  });
  console.table(rows.map(({ played: _, ...row }) => row));
  for (const { rule, played } of rows) {
    // Hyperband compares a point's seeds with other trials each, so it may take a neighbour of the
    // best.
    if (!rule.startsWith("hyperband")) assert.equal(played.winner, full.winner, rule);
    assert.ok(lossOf(played.winner) < 1.1 * lossOf(full.winner), rule);
    assert.ok(
      played.epochs < 0.75 * full.epochs,
      `${rule} took ${played.epochs} of ${full.epochs} epochs`,
    );
    assert.ok(played.time < 0.75 * full.time, `${rule} took ${played.time} of ${full.time}`);
  }
});
