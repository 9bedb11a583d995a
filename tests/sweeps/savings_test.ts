/**
 * What early stopping saves against the full grid: 16 points × 3 seeds of a learner, its curves
 * recorded once, played by eight workers under each rule. A table says how many steps and how much
 * time each rule took, and which point it chose.
 */
import { strict as assert } from "node:assert";
import { decide, type Report, rungsOf } from "../../src/sweeps/stopping.ts";
import { stopOf } from "../../src/sweeps/words.ts";

const EPOCHS = 81;
const SEEDS = 3;
const WORKERS = 8;
const DIMENSIONS = 20;

/** Even numbers in [-1, 1), always the same for a seed. */
function numbers(seed: number): () => number {
  let state = (seed * 2_654_435_761) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

interface Point {
  lr: number;
  batch: number;
}
const points: Point[] = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1].flatMap((lr) =>
  [4, 16].map((batch) => ({ lr, batch }))
);

/** Validation loss after each epoch of a linear regression by stochastic gradient descent. */
function learn({ lr, batch }: Point, seed: number): number[] {
  const random = numbers(seed);
  const wanted = Array.from({ length: DIMENSIONS }, random);
  const example = () => {
    const x = Array.from({ length: DIMENSIONS }, random);
    return { x, y: x.reduce((sum, v, i) => sum + v * wanted[i]!, 0.3 * random()) };
  };
  const held = Array.from({ length: 200 }, example);
  const weights = new Float64Array(DIMENSIONS);
  const error = ({ x, y }: ReturnType<typeof example>) =>
    x.reduce((sum, v, i) => sum + v * weights[i]!, -y);
  return Array.from({ length: EPOCHS }, () => {
    for (let step = 0; step < 4; step++) {
      const examples = Array.from({ length: batch }, example);
      const errors = examples.map(error);
      for (let i = 0; i < DIMENSIONS; i++) {
        weights[i]! -= lr * examples.reduce((sum, { x }, n) => sum + errors[n]! * x[i]!, 0) / batch;
      }
    }
    return held.reduce((sum, one) => sum + error(one) ** 2, 0) / held.length;
  });
}

/** All points with the first seed, then with the next; as a sweep numbers its trials. */
const trials = Array.from({ length: points.length * SEEDS }, (_, trial) => {
  const point = trial % points.length;
  return { point, curve: learn(points[point]!, 1 + Math.floor(trial / points.length)) };
});
/** Of an epoch; a larger batch takes longer. */
const pace = (point: number) => 1 + points[point]!.batch / 8;

/** The mean of a point's last losses, over all its seeds. */
function lossOf(point: number): number {
  const its = trials.filter((trial) => trial.point === point);
  return its.reduce((sum, { curve }) => sum + curve.at(-1)!, 0) / its.length;
}

/** @param words of a rule; undefined: the full grid */
function play(words: string | undefined) {
  const rule = words === undefined ? undefined : stopOf(words, {});
  const log: Report[] = [];
  const ended: { point: number; value: number }[] = [];
  const busy: { trial: number; epoch: number; at: number }[] = [];
  let [next, epochs, time, now, stopped] = [0, 0, 0, 0, 0];
  for (;;) {
    while (busy.length < WORKERS && next < trials.length) {
      const { point } = trials[next]!;
      busy.push({ trial: next++, epoch: 0, at: now + pace(point) });
    }
    const soonest = busy.toSorted((a, b) => a.at - b.at || a.trial - b.trial)[0];
    if (soonest === undefined) break;
    const { point, curve } = trials[soonest.trial]!;
    now = soonest.at;
    soonest.epoch++;
    soonest.at += pace(point);
    epochs++;
    time += pace(point);
    const seen = curve.slice(0, soonest.epoch);
    const value = seen.at(-1)!;
    const rung = rule === undefined ? -1 : rungsOf(rule, soonest.trial).indexOf(soonest.epoch);
    let stops = false;
    if (rung >= 0) {
      const mean = seen.reduce((sum, v) => sum + v, 0) / seen.length;
      const report = { trial: soonest.trial, rung: rung + 1, value, mean, best: Math.min(...seen) };
      const pointOf = (trial: number) => String(trials[trial]!.point);
      stops = decide(
        rule!,
        "min",
        log.filter((one) => one.rung === report.rung),
        report,
        pointOf,
      ).stops;
      log.push(report);
    }
    if (!stops && soonest.epoch < EPOCHS) continue;
    if (stops) stopped++;
    else ended.push({ point, value });
    busy.splice(busy.indexOf(soonest), 1);
  }
  const byPoint = [...Map.groupBy(ended, (one) => one.point)];
  const most = Math.max(...byPoint.map(([, its]) => its.length));
  const mean = (its: typeof ended) => its.reduce((sum, { value }) => sum + value, 0) / its.length;
  const [winner] = byPoint.filter(([, its]) => its.length === most).sort(([, a], [, b]) =>
    mean(a) - mean(b)
  )[0]!;
  return { epochs, time, now, stopped, winner };
}

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
      stopped: `${played.stopped} of ${trials.length}`,
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
