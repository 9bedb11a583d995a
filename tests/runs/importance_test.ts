import { strict as assert } from "node:assert";
import {
  importanceOf,
  importanceText,
  LEAST_POINTS,
  type Outcome,
} from "../../src/runs/importance.ts";

/** A number in [0, 1) that follows from the place and a salt. */
const at = (i: number, salt: number) => (Math.sin(i * 127.1 + salt * 311.7) * 43758.5453) % 1 + 0.5;

function outcomes(
  count: number,
  result: (x: { lr: number; layers: number; act: string }, i: number) => number,
) {
  return Array.from({ length: count }, (_, i): Outcome => {
    const x = { lr: at(i, 1), layers: i % 4, act: ["relu", "tanh", "gelu"][i % 3]! };
    return { parameters: { ...x, same: 1 }, result: result(x, i) };
  });
}

Deno.test("importance: what the result depends on comes first, numbers and texts alike; what does not differ is left out", () => {
  const found = importanceOf(outcomes(60, ({ lr, act }) => 10 * lr + (act === "tanh" ? 3 : 0)));
  assert.deepEqual(found.parameters.map(({ name }) => name).slice(0, 2), ["lr", "act"]);
  assert.equal(found.differing, 3);
  assert.ok(found.explained! > 0.7, `${found.explained}`);
  assert.ok(Math.abs(found.parameters.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9);
  const byText = importanceOf(
    outcomes(60, ({ act, layers }) => (act === "gelu" ? 5 : 0) + layers / 100),
  );
  assert.equal(byText.parameters[0]!.name, "act");
  assert.ok(byText.parameters[0]!.share > 0.6, JSON.stringify(byText));
});

Deno.test("importance: ranks decide, so one diverged result changes nothing; the same outcomes give the same answer", () => {
  const plain = importanceOf(outcomes(40, ({ lr }) => lr));
  const diverged = importanceOf(outcomes(40, ({ lr }) => Math.exp(100 * lr)));
  assert.deepEqual(diverged, plain);
});

Deno.test("importance: results of equal parameters are one point; with few points there is none, and it says how many", () => {
  const seeds = outcomes(LEAST_POINTS - 1, ({ lr }) => lr).flatMap((one) => [one, one, one]);
  const few = importanceOf(seeds);
  assert.deepEqual([few.points, few.explained, few.parameters], [LEAST_POINTS - 1, null, []]);
  assert.equal(importanceText(few), "15 points have a result; importance needs 16.");
  assert.deepEqual(importanceOf([...seeds, { parameters: { lr: 9 }, result: NaN }]), few);
});

Deno.test("importance: results that are noise have no important parameter", () => {
  const noise = importanceOf(outcomes(40, (_, i) => at(i, 7)));
  assert.deepEqual(noise.parameters, []);
  assert.match(importanceText(noise), /too little to say which parameter matters/);
});

Deno.test("importance: a parameter that only some have, and more parameters than are looked at", () => {
  const conditional = importanceOf(Array.from({ length: 40 }, (_, i) => ({
    parameters: i % 2 === 0 ? { momentum: at(i, 2) } : {},
    result: i % 2 === 0 ? 5 + at(i, 2) : at(i, 3),
  })));
  assert.equal(conditional.parameters[0]!.name, "momentum");
  const many = importanceOf(Array.from({ length: 40 }, (_, i) => ({
    parameters: Object.fromEntries(Array.from({ length: 35 }, (_, p) => [`p${p}`, at(i, p)])),
    result: at(i, 0),
  })));
  assert.equal(many.differing, 35);
  assert.match(importanceText(many), /the first 30 of 35 parameters/);
});
