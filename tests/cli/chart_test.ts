import { strict as assert } from "node:assert";
import { plot, sparkline } from "../../src/cli/text/chart.ts";

Deno.test("sparkline: spans from the least to the greatest value", () => {
  assert.equal(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8), "▁▂▃▄▅▆▇█");
  assert.equal(sparkline([5, 5, 5], 8), "▁▁▁");
  assert.equal(sparkline([1, NaN, 2], 8), "▁ █");
  assert.equal(sparkline([], 8), "");
  assert.equal(sparkline(Array.from({ length: 100 }, (_, i) => i), 4).length, 4);
});

const OPTIONS = { width: 30, height: 9, color: false, title: "reward", xLabel: "episode" };

Deno.test("plot: a rising line rises from the lower left to the upper right", () => {
  const lines = plot([{ name: "a", points: [{ x: 0, y: 0 }, { x: 100, y: 50 }] }], OPTIONS).split(
    "\n",
  );
  assert.equal(lines[0], "reward");
  assert.match(lines[1]!, /^50 ┤ +⣀?[⠁-⣿]+$/);
  assert.match(lines[6]!, /^ 0 ┤[⠁-⣿]+/);
  assert.match(lines[8]!, /^ {4}0 episode +100$/);
  for (const line of lines) assert.ok(line.length <= 30, line);
});

Deno.test("plot: flat, single, missing and logarithmic values", () => {
  assert.match(plot([{ name: "a", points: [{ x: 1, y: 7 }, { x: 2, y: 7 }] }], OPTIONS), /[⠁-⣿]/);
  assert.match(plot([{ name: "a", points: [{ x: 1, y: 7 }] }], OPTIONS), /[⠁-⣿]/);
  assert.equal(
    plot([{ name: "a", points: [{ x: 1, y: NaN }] }], OPTIONS),
    "reward: no points to plot\n",
  );
  const log = plot([{ name: "a", points: [{ x: 1, y: -1 }, { x: 2, y: 1 }, { x: 3, y: 1000 }] }], {
    ...OPTIONS,
    log: true,
  });
  assert.match(log, /^1000 ┤/m);
  assert.match(log, /^ {3}1 ┤/m);
});

Deno.test("plot: several series have a legend", () => {
  const text = plot([{ name: "one", points: [{ x: 0, y: 0 }] }, {
    name: "two",
    points: [{ x: 1, y: 1 }],
  }], OPTIONS);
  assert.match(text, /── one {3}── two/);
});
