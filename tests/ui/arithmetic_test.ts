/** Arithmetic of the page's charts and table, without a browser. */
import assert from "node:assert/strict";
import {
  groupOrder,
  groupsOf,
  spreadOf,
  together,
  withoutSeed,
} from "../../src/telemetry/series/groups.ts";
import type { SeriesColumns } from "../../src/ui/api/page_json.ts";
import { type ChartStyle, type DataSet, linesOf } from "../../src/ui/client/charts/chart_lines.ts";
import {
  ascending,
  haveOf,
  joined,
  lastOf,
  overOther,
  pointsBetween,
  smooth,
  spread,
} from "../../src/ui/client/charts/smoothing.ts";

Deno.test("chart: points stored together are spread between the steps around them; a restart may go back", () => {
  assert.deepEqual(spread([10, 10, 30, 30, 30, 30, 5]), [5, 10, 15, 20, 25, 30, 5]);
  assert.deepEqual(spread([1, 2, 3]), [1, 2, 3]);
  assert.deepEqual(spread([0, 0]), [0, 0]);
  assert.deepEqual(spread([]), []);
});

Deno.test("chart: x always ascends, a smoothed line starts where its values do, and anew after a hole", () => {
  const xs = ascending([1, 5, 3, 3, 9]);
  assert.ok(xs.every((x, i) => i === 0 || x > xs[i - 1]!), String(xs));
  const day = Date.UTC(2025, 0, 1) / 1000;
  const together = ascending([day, day, day, day + 0.01]);
  assert.ok(
    together[2]! < day + 0.001 && together[3] === day + 0.01,
    "points of one time stay there",
  );
  assert.deepEqual(
    smooth([4, 4, null, 8], 0.9).map((y) => y === null ? null : Math.round(y * 1e9) / 1e9),
    [
      4,
      4,
      null,
      8,
    ],
  );
});

Deno.test("chart: over another metric a point lies where that one was at its step, or at its time", () => {
  const series = (name: string, at: number[], step: (number | null)[], last: (number | string)[]) =>
    ({ name, at, step, last, mean: last, attempt: at.map(() => null) }) as unknown as SeriesColumns;
  const tokens = series("tokens", [1, 2, 3, 4], [0, 10, 20, 30], [0, 100, "NaN", 300]);
  const loss = series("loss", [9, 9, 9, 9], [5, 20, 30, 40], [5, 4, 3, 2]);
  const over = overOther(loss, tokens);
  assert.deepEqual([over.over, over.last], [[50, 200, 300], [5, 4, 3]]);
  const timed = overOther(series("reward", [4, 2, 0], [null, null, null], [7, 8, 9]), tokens);
  assert.deepEqual([timed.over, timed.last], [[100, 300], [8, 7]]);
  // The newest is told, wherever it lies.
  const falling = series("lr", [1, 2], [0, 30], [0.5, 0.1]);
  assert.deepEqual([
    lastOf(overOther(series("loss", [1, 2], [0, 30], [5, "NaN"]), falling)),
    lastOf(timed),
  ], [5, 7]);
  assert.equal(lastOf(overOther(series("loss", [1, 2], [0, 30], [5, 3]), falling)), 3);
  assert.deepEqual(overOther(loss, undefined).over, []);
});

Deno.test("chart: a part of the time axis holds the points of the buckets that reach into it", () => {
  const single = { first_x: [1, 2, 3, 4], last_x: [1, 2, 3, 4] };
  assert.deepEqual(pointsBetween([0, 1, 90, 91], single, 0.5, 90), [2, 3]);
  assert.equal(pointsBetween([0, 1, 90, 91], single, 10, 80), undefined);
  // Of several points, some may lie anywhere since the bucket before.
  assert.deepEqual(pointsBetween([1, 90], { first_x: [1, 11], last_x: [10, 20] }, 10, 80), [
    11,
    20,
  ]);
  assert.equal(pointsBetween([1, 90], { first_x: [1, 11], last_x: [10, 20] }, 91, 95), undefined);
  // Over another metric, which falls again: the second bucket's points lie between 90 and 5, the
  // third's between 5 and 50.
  assert.deepEqual(
    pointsBetween([5, 50, 90], { first_x: [11, 21, 1], last_x: [20, 30, 10] }, 60, 80),
    [1, 20],
  );
  assert.deepEqual(
    pointsBetween([5, 50, 90], { first_x: [11, 21, 10], last_x: [20, 30, 10] }, 60, 80),
    [11, 20],
  );
  assert.equal(pointsBetween([], { first_x: [], last_x: [] }, 0, 1), undefined);
});

Deno.test("groups: names lose their seed, parameters their sameness; a version stays", () => {
  assert.deepEqual(
    [
      "ppo-cartpole-seed3",
      "ppo_cartpole_s3",
      "ppo-3",
      "CartPole-v1",
      "seed 4",
      "lr0.003-seed1",
      "ppo.3",
    ].map(
      withoutSeed,
    ),
    ["ppo-cartpole", "ppo_cartpole", "ppo", "CartPole-v1", "seed 4", "lr0.003", "ppo"],
  );
  // Numbers of a name that are no seeds, however they are written.
  for (const name of ["lr0.003", "gamma=.99", "ppo-lr1e-3", "ppo_lr=2.5E-4"]) {
    assert.equal(withoutSeed(name), name);
    assert.equal(withoutSeed(`${name}-seed1`), name);
    assert.equal(withoutSeed(`${name}_s1`), name);
    assert.equal(withoutSeed(`${name}-1`), name);
  }
  const run = (lr: number, seed: number) => ({
    name: "a",
    tags: [],
    parameters: [{ name: "lr", value: lr }, { name: "optim.seed", value: seed }, {
      name: "env",
      value: "x",
    }],
  });
  const runs = [run(0.1, 1), run(0.1, 2), run(0.2, 1)];
  assert.deepEqual(groupsOf(runs, "parameters"), ["lr=0.1", "lr=0.1", "lr=0.2"]);
  assert.deepEqual(groupsOf(runs, "parameter:env"), ["env=x", "env=x", "env=x"]);
  assert.deepEqual(groupsOf([run(1, 1), run(1, 2)], "parameters"), ["all runs", "all runs"]);
});

Deno.test("groups: values of parameters are in the order of their size, names as a person counts", () => {
  const order = (...labels: string[]) => labels.sort(groupOrder);
  assert.deepEqual(order("lr=0.01", "lr=3e-2", "lr=0.001", "lr=–", "lr=-1"), [
    ...["lr=-1", "lr=0.001", "lr=0.01", "lr=3e-2", "lr=–"],
  ]);
  assert.deepEqual(order("env=b, lr=0.1", "env=a, lr=0.02", "env=b, lr=0.03"), [
    ...["env=a, lr=0.02", "env=b, lr=0.03", "env=b, lr=0.1"],
  ]);
  assert.deepEqual(order("ppo-10", "ppo-9", "a2c"), ["a2c", "ppo-9", "ppo-10"]);
});

Deno.test("groups: curves over other x are one, with the number of runs that have a value at each place", () => {
  const { x, middle, low, high, count } = together([
    { x: [0, 100], y: [0, 100] },
    { x: [0, 50, 60, 70, 80], y: [10, 60, null, 80, 90] },
  ], "minmax");
  const at = (place: number) => x.findIndex((v) => v >= place);
  assert.deepEqual([x[0], x.at(-1)], [0, 100]);
  assert.deepEqual([low[0], middle[0], high[0], count[0]], [0, 5, 10, 2]);
  for (const place of [40, 75]) {
    const i = at(place);
    assert.ok(
      Math.abs(low[i]! - x[i]!) < 1e-9 && Math.abs(high[i]! - (10 + x[i]!)) < 1e-9,
      "straight between points",
    );
    assert.equal(count[i], 2);
  }
  for (const place of [55, 65, 90]) {
    assert.equal(count[at(place)], 1, "nothing is made up beside a hole, or beyond the end");
  }
  assert.equal(middle.at(-1), 100);
  assert.deepEqual(together([{ x: [], y: [] }, { x: [1, 2], y: [null, null] }], "sd").x, []);
});

Deno.test("groups: spreads as textbooks have them", () => {
  const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-3, `${a} is not ${b}`);
  assert.deepEqual(spreadOf(Array(12).fill(192.71), "sd"), {
    middle: 192.71,
    low: 192.71,
    high: 192.71,
  });
  near(spreadOf([1, 2, 3, 4], "sd").high, 2.5 + 1.29099);
  near(spreadOf([1, 2, 3, 4], "ci95").high, 2.5 + 3.182 * 1.29099 / 2);
  assert.equal(spreadOf([0, 1, 2, 3, 4, 5, 6, 100], "iqm").middle, 3.5);
  near(spreadOf([1, 2, 6], "iqm").middle, (0.25 * 1 + 2 + 0.25 * 6) / 1.5);
  const { low, middle, high } = spreadOf([3, 5, 8, 13, 21], "iqm");
  assert.ok(low >= 3 && low < middle && middle < high && high <= 21);
  // Every draw of as many may be any of them: also of four, where a poor row of numbers would only
  // reorder them.
  const four = spreadOf([1, 2, 3, 4], "iqm");
  assert.ok(four.low < 2 && four.high > 3, JSON.stringify(four));
  assert.deepEqual(spreadOf([7], "ci95"), { middle: 7, low: 7, high: 7 });
});

Deno.test("groups: the bootstrap by ranks is as wide as one that draws values", () => {
  const values = Array.from({ length: 60 }, (_, i) => ((i * 37) % 61) ** 2);
  const middleHalf = (drawn: number[]) => {
    const sorted = drawn.toSorted((a, b) => a - b).slice(15, 45);
    return sorted.reduce((a, b) => a + b, 0) / sorted.length;
  };
  // Another row of numbers than the page's.
  let state = 7;
  const draw = () => {
    state = state * 48271 % 2147483647;
    return values[Math.floor(state / 2147483647 * values.length)]!;
  };
  const means = Array.from({ length: 4000 }, () => middleHalf(values.map(draw))).sort((a, b) =>
    a - b
  );
  const [low, high] = [means[100]!, means[3899]!];
  const found = spreadOf(values, "iqm");
  assert.ok(Math.abs(found.middle - middleHalf(values)) < 1e-9);
  const near = (a: number, b: number) =>
    assert.ok(Math.abs(a - b) < 0.12 * (high - low), `${a} is not near ${b}`);
  near(found.low, low);
  near(found.high, high);
});

/** A run's points 1 … n, a point a bucket. */
function points(runId: string, values: number[], more: Partial<DataSet> = {}): DataSet {
  const x = values.map((_, i) => i + 1);
  const none = values.map(() => null);
  const no = values.map(() => false);
  return {
    ...{ runId, label: runId, color: "#000000", startedAt: 0 },
    columns: {
      ...{
        name: "a",
        first_x: x,
        last_x: x,
        min: values,
        max: values,
        mean: values,
        last: values,
        at: x,
      },
      ...{ count: values.map(() => 1), step: none, attempt: none, overwritten: no, damaged: no },
    },
    ...more,
  };
}
const STYLE: ChartStyle = {
  ...{
    x: "index",
    smoothing: 0.6,
    log: false,
    logX: false,
    band: "sd",
    overwritten: true,
    hidden: [],
  },
};

Deno.test("chart: the legend of a group tells the end of its curve, of the runs that are that long", () => {
  const grown = Array.from({ length: 60 }, (_, i) => i * 5);
  const sets = [grown, grown.map((v) => v + 10), grown.slice(0, 20)].map((v, i) =>
    points(`r${i}`, v, { group: "a2c" })
  );
  for (const smoothing of [0, 0.9]) {
    const [line] = linesOf(sets, { ...STYLE, smoothing }, "");
    assert.deepEqual([line!.last, line!.lastRuns, line!.runs], [300, 2, 3]);
    if (smoothing === 0) assert.equal(line!.table[4]!.at(-1), line!.last);
  }
});

Deno.test("chart: few points are not smoothed, many are", () => {
  const jump = (n: number) => Array.from({ length: n }, (_, i) => i < n / 2 ? 0 : 100);
  const drawn = (n: number) => linesOf([points("r", jump(n))], STYLE, "")[0]!;
  assert.deepEqual([drawn(20).table[4], drawn(20).smoothed], [jump(20), false]);
  assert.equal(drawn(80).smoothed, true);
  assert.notDeepEqual(drawn(80).table[4], jump(80));
});

Deno.test("chart: a line of a crowd goes through the extremes and the last value of its buckets", () => {
  const rows = { mean: [1, 5, 5, 8], min: [1, -7, 2, 3], max: [1, 9, 40, 12], last: [1, 2, 3, 11] };
  const crowd = Array.from({ length: 41 }, (_, i) => {
    const set = points(`r${i}`, rows.mean);
    return { ...set, columns: { ...set.columns, ...rows, count: [1, 31, 32, 32] } };
  });
  assert.deepEqual(linesOf(crowd, { ...STYLE, smoothing: 0 }, "")[0]!.table[4], [1, -7, 40, 11]);
  // Where a band shows the extremes, the line stays the mean.
  assert.deepEqual(
    linesOf(crowd.slice(0, 2), { ...STYLE, smoothing: 0 }, "")[0]!.table[4],
    rows.mean,
  );
});

Deno.test("chart: what came since is joined to the buckets that are here; everything is asked for when they no longer fit", () => {
  const all = points("r", [1, 2, 3, 4, 5, 6]).columns;
  const part = (from: number, to: number) =>
    ({
      name: "a",
      ...Object.fromEntries(
        Object.entries(all).flatMap(([k, v]) => Array.isArray(v) ? [[k, v.slice(from, to)]] : []),
      ),
    }) as SeriesColumns;
  const have = haveOf(part(0, 4), 100);
  assert.deepEqual(have, [4, 1]);
  assert.deepEqual(joined(part(0, 4), part(3, 6), have), all);
  // The daemon answered with everything.
  assert.deepEqual(joined(part(0, 4), all, have), all);
  assert.equal(haveOf(undefined, 100), null);
  assert.equal(haveOf(part(0, 1), 100), null);
  assert.equal(haveOf(all, 3), null, "too many by now");
  assert.equal(haveOf({ ...all, damaged: [false, true, false, false, false, false] }, 100), null);
  assert.equal(haveOf({ ...all, attempt: [1, 1, 1, 2, 2, 2] }, 100), null);
  const wide = { ...part(0, 2), first_x: [1, 33], last_x: [32, 64] };
  assert.deepEqual([haveOf(wide, 3), haveOf(wide, 100)], [[33, 32], null]);
});
