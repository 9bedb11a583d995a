/**
 * Curves of a learner, 16 points × 3 seeds, recorded once and played by eight workers under each
 * rule of early stopping.
 */
import { decide, type Report, rungsOf } from "../../src/sweeps/stopping.ts";
import { stopOf } from "../../src/sweeps/words.ts";

export const EPOCHS = 81;
export const SEEDS = 3;
export const WORKERS = 8;
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
export const points: Point[] = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1].flatMap((lr) =>
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
export const trials = Array.from({ length: points.length * SEEDS }, (_, trial) => {
  const point = trial % points.length;
  return { point, curve: learn(points[point]!, 1 + Math.floor(trial / points.length)) };
});
/** Of an epoch; a larger batch takes longer. */
export const pace = (point: number) => 1 + points[point]!.batch / 8;

/** The mean of a point's last losses, over all its seeds. */
export function lossOf(point: number): number {
  const its = trials.filter((trial) => trial.point === point);
  return its.reduce((sum, { curve }) => sum + curve.at(-1)!, 0) / its.length;
}

/** @param words of a rule; undefined: the full grid */
export function play(words: string | undefined) {
  const rule = words === undefined ? undefined : stopOf(words, {});
  const log: Report[] = [];
  const ended: { point: number; value: number }[] = [];
  const busy: { trial: number; epoch: number; at: number }[] = [];
  /** Trial and epoch of each stop. */
  const stops: [trial: number, epoch: number][] = [];
  let [next, epochs, time, now] = [0, 0, 0, 0];
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
    let isStopped = false;
    if (rung >= 0) {
      const mean = seen.reduce((sum, v) => sum + v, 0) / seen.length;
      const report = { trial: soonest.trial, rung: rung + 1, value, mean, best: Math.min(...seen) };
      const pointOf = (trial: number) => String(trials[trial]!.point);
      isStopped = decide(
        rule!,
        "min",
        log.filter((one) => one.rung === report.rung),
        report,
        pointOf,
      ).stops;
      log.push(report);
    }
    if (!isStopped && soonest.epoch < EPOCHS) continue;
    if (isStopped) stops.push([soonest.trial, soonest.epoch]);
    else ended.push({ point, value });
    busy.splice(busy.indexOf(soonest), 1);
  }
  const byPoint = [...Map.groupBy(ended, (one) => one.point)];
  const most = Math.max(...byPoint.map(([, its]) => its.length));
  const mean = (its: typeof ended) => its.reduce((sum, { value }) => sum + value, 0) / its.length;
  const [winner] = byPoint.filter(([, its]) => its.length === most).sort(([, a], [, b]) =>
    mean(a) - mean(b)
  )[0]!;
  return { epochs, time, now, stops, winner };
}
