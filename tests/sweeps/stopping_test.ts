/**
 * Early stopping: a pure function of the reports before, so that any daemon decides the same from
 * the same log.
 */
import { strict as assert } from "node:assert";
import type { StopRule } from "../../src/sweeps/spec.ts";
import {
  decide as decideOver,
  decideHeld,
  type Goal,
  type Report,
  rungsOf,
} from "../../src/sweeps/stopping.ts";

const ASHA: StopRule = { rule: "asha", unit: "step", min: 10, max: 270, reduction: 3, brackets: 1 };
const report = (trial: number, value: number, rung = 1): Report => ({
  trial,
  rung,
  value,
  mean: value,
  best: value,
});

/** Trials 0, 1, 2 … of four points, each with further seeds. */
const decide = (rule: StopRule, goal: Goal, earlier: readonly Report[], one: Report) =>
  decideOver(rule, goal, earlier, one, (trial) => `point ${trial % 4}`);

Deno.test("rungs: geometric up to the end; hyperband's brackets begin further and further; median's are equally far apart", () => {
  assert.deepEqual(rungsOf(ASHA, 0), [10, 30, 90]);
  const hyperband: StopRule = { ...ASHA, rule: "hyperband", brackets: 3 };
  assert.deepEqual([0, 1, 2, 3].map((trial) => rungsOf(hyperband, trial)), [
    [10, 30, 90],
    [30, 90],
    [90],
    [
      10,
      30,
      90,
    ],
  ]);
  assert.deepEqual(rungsOf({ ...ASHA, rule: "median", min: 90 }, 0), [90, 180]);
});

Deno.test("asha: one in three goes on, at least one; the reason says the place", () => {
  const earlier = Array.from({ length: 11 }, (_, i) => report(i, i));
  assert.deepEqual(decide(ASHA, "max", earlier, report(11, 7.5)), {
    stops: false,
    reason: "rung 1 of 3: 7.5 is 4th of 12, 4 go on",
  });
  assert.deepEqual(decide(ASHA, "max", earlier, report(11, 2.5)), {
    stops: true,
    reason: "rung 1 of 3: 2.5 is 9th of 12, 4 go on",
  });
  assert.equal(decide(ASHA, "min", earlier, report(11, 2.5)).stops, false);
  assert.equal(decide(ASHA, "max", [], report(0, -5)).stops, false);
  assert.equal(
    decide(ASHA, "max", [report(0, 1)], report(1, 1)).stops,
    false,
    "equal values are equally good",
  );
  assert.match(decide(ASHA, "max", earlier, report(11, NaN)).reason, /NaN/);
  assert.equal(decide(ASHA, "max", earlier, report(11, NaN)).stops, true);
  assert.equal(
    decide(ASHA, "max", [report(0, 9, 2)], report(1, 1)).stops,
    false,
    "other rungs do not count",
  );
});

Deno.test("asha over points: the mean over a point's seeds is ranked among the other points' means", () => {
  const rule: StopRule = { ...ASHA, over: "point" };
  const seed1 = [5, 6, 7, 1].map((value, trial) => report(trial, value));
  assert.deepEqual(decide(rule, "max", seed1, report(4, 11)), {
    stops: false,
    reason: "rung 1 of 3: mean 8 of 2 seeds is 1st of 4 points, 1 goes on",
  });
  assert.deepEqual(decide(rule, "max", [...seed1, report(4, 11)], report(6, 8)), {
    stops: true,
    reason: "rung 1 of 3: mean 7.5 of 2 seeds is 2nd of 4 points, 1 goes on",
  });
  assert.equal(
    decide(rule, "max", [report(0, NaN), report(4, 1)], report(1, 0)).stops,
    true,
    "one seed of two is NaN",
  );
  assert.equal(
    decide(rule, "max", [report(0, NaN)], report(1, -9)).stops,
    false,
    "a point of NaN only is worst",
  );
});

Deno.test("asha over points by median or interquartile mean: one bad seed does not decide; the reason has its interval", () => {
  const seeds = (point: number, ...values: number[]) =>
    values.map((value, i) => report(point + 4 * i, value));
  const earlier = [...seeds(0, 9, 9, 9, 9), ...seeds(1, 5, 5, 5, 5), ...seeds(2, 10, 10, 10)];
  const last = report(14, -50);
  assert.match(
    decide({ ...ASHA, over: "mean" }, "max", earlier, last).reason,
    /mean -5 of 4 seeds is 3rd of 3 points/,
  );
  assert.deepEqual(decide({ ...ASHA, over: "median" }, "max", earlier, last), {
    stops: false,
    reason: "rung 1 of 3: median 10 of 4 seeds is 1st of 3 points, 1 goes on",
  });
  const { stops, reason } = decide({ ...ASHA, over: "iqm" }, "max", earlier, last);
  assert.equal(stops, false);
  assert.match(
    reason,
    /^rung 1 of 3: interquartile mean 10 \[-[\d.]+, 10\] of 4 seeds is 1st of 3 points, 1 goes on$/,
  );
});

Deno.test("asha with hold: who waits goes on as soon as it is among the best; beyond the bound, the worst of the lowest rung is stopped", () => {
  const rule: StopRule = { ...ASHA, hold: 1 };
  const first = [9, 8, 7, 1, 2].map((value, trial) => report(trial, value));
  const reached = (rung: number) =>
    rung === 1 ? [...first, report(5, 0)] : [report(0, 20, 2), report(1, 10, 2)];
  const decided = (waiting: Report[]) => decideHeld(rule, "max", reached, waiting, String);
  assert.deepEqual(decided([first[1]!, first[2]!]), [
    { trial: 1, stops: false, reason: "rung 1 of 3: 8 is 2nd of 6, 2 go on" },
  ]);
  assert.deepEqual(
    decided([first[2]!, first[3]!, report(1, 10, 2)]).map(({ trial, stops }) => [trial, stops]),
    [
      [3, true],
      [2, true],
    ],
  );
  assert.deepEqual(decided([first[2]!]), []);
});

Deno.test("median: worse than the median of the other trials' means, once there are three", () => {
  const rule: StopRule = { ...ASHA, rule: "median", min: 90 };
  const earlier = [1, 2, 3].map((mean, trial) => ({ ...report(trial, 9), mean }));
  assert.equal(decide(rule, "max", earlier.slice(1), report(7, 0)).stops, false);
  assert.equal(decide(rule, "max", earlier, report(7, 1.5)).stops, true);
  assert.equal(decide(rule, "max", earlier, report(7, 2)).stops, false);
});

/**
 * Optuna's SuccessiveHalvingPruner (4.x, `_is_trial_promotable_to_next_rung`), as its source says
 * it.
 */
function optunaPromotes(
  value: number,
  competing: number[],
  reduction: number,
  goal: Goal,
): boolean {
  let promotable = Math.floor(competing.length / reduction) - 1;
  if (promotable === -1) promotable = 0;
  const sorted = competing.toSorted((a, b) => a - b);
  return goal === "max"
    ? value >= sorted[sorted.length - 1 - promotable]!
    : value <= sorted[promotable]!;
}

Deno.test("property: decisions over every prefix of a log equal those of a replay, and ASHA's are Optuna's", () => {
  let state = 42;
  const random = () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  for (let round = 0; round < 40; round++) {
    const goal: Goal = round % 2 === 0 ? "max" : "min";
    const rule: StopRule = {
      ...ASHA,
      rule: (["asha", "hyperband", "median"] as const)[round % 3]!,
      reduction: 2 + round % 3,
      brackets: round % 3 === 1 ? 3 : 1,
      min: round % 3 === 2 ? 45 : 10,
      ...(round % 3 === 1
        ? { over: (["point", "median", "iqm"] as const)[(round - 1) / 3 % 3]! }
        : {}),
    };
    const next = new Map<number, number>();
    const log: Report[] = [];
    const decisions: boolean[] = [];
    for (let i = 0; i < 120; i++) {
      const trial = Math.floor(random() * 20);
      const rung = (next.get(trial) ?? 0) + 1;
      if (rung > rungsOf(rule, trial).length) continue;
      // Few different values: ties occur.
      const value = Math.floor(random() * 12) + rung;
      const one = { trial, rung, value, mean: value - random(), best: value + random() };
      const { stops } = decide(rule, goal, log, one);
      if (rule.rule === "asha") {
        const competing = [...log.filter((r) => r.rung === rung).map((r) => r.value), value];
        assert.equal(stops, !optunaPromotes(value, competing, rule.reduction, goal));
      }
      log.push(one);
      decisions.push(stops);
      next.set(trial, stops ? Infinity : rung);
    }
    // A daemon that died after any of them reads the log from its rows and continues.
    for (let at = 0; at <= log.length; at++) {
      const stored: Report[] = JSON.parse(JSON.stringify(log.slice(0, at)));
      for (const [i, one] of log.entries()) {
        if (i < at) continue;
        assert.equal(decide(rule, goal, stored, one).stops, decisions[i]);
        stored.push(one);
      }
    }
  }
});
