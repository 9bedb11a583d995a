import assert from "node:assert/strict";
import { conditionsOf, orderOf, type Searched } from "../../src/mlflow/search.ts";
import {
  eventsOf,
  type MetricPoint,
  pointsOfEvent,
  RecentPoints,
} from "../../src/mlflow/points.ts";
import { metricKey } from "../../src/mlflow/tracked.ts";

function run(name: string, metrics: Record<string, number>, params = {}, tags = {}): Searched {
  const attributes = { run_name: name, status: "FINISHED", start_time: 5, end_time: null };
  return { metrics: new Map(Object.entries(metrics)), params, tags, attributes };
}
const RUNS = [
  {
    ...run("a", { "loss": 0.5, "val loss": 3 }, { lr: "0.1" }, {
      "mlflow.parentRunId": "P",
      team: "Rl-one",
    }),
    datasets: [{ name: "mnist", digest: "1", context: "train" }, {
      name: "own",
      digest: "2",
      context: "test",
    }],
  },
  run("b", { "loss": 0.25 }, { lr: "0.01" }, { "mlflow.parentRunId": "P" }),
  run("c", { "loss": NaN }),
  run("d", {}),
];
const names = (runs: Searched[]) => runs.map(({ attributes }) => attributes.run_name).join("");

Deno.test("mlflow search: the conditions of its clients", () => {
  for (
    const [filter, found] of [
      ["", "abcd"],
      ["tags.mlflow.parentRunId = 'P' and metrics.loss < 0.4", "b"],
      ["metrics.`val loss` >= 3", "a"],
      ['params."lr" != "0.1" AND attributes.status=\'FINISHED\'', "b"],
      ["tag.team LIKE 'Rl%'", "a"],
      ["tags.team like 'rl%'", ""],
      ["tags.team ILIKE 'rl_one'", "a"],
      ["run_name IN ('a', \"d\") and start_time > 4", "ad"],
      ["attribute.run_name NOT IN ('a','and')", "bcd"],
      ["end_time > 0", ""],
      ["params.lr IS NULL", "cd"],
      ["params.lr is not null and tags.team IS NULL", "b"],
      ["dataset.name = 'mnist' and dataset.context = 'train'", "a"],
      ["datasets.name = 'mnist' and dataset.context = 'test'", ""],
      ["dataset.digest IS NULL", "bcd"],
      ["params.constructor != ''", ""],
      ["parameter.lr = '0.01 and x'", ""],
    ] as const
  ) assert.equal(names(RUNS.filter(conditionsOf(filter))), found, filter);
  for (
    const wrong of [
      "metrics.loss",
      "metrics.loss < 'x' or run_name = 'a'",
      "loss ~ 3",
      "metrics.loss < many",
      "run_name IN 'a'",
      "status = ('a')",
      "datasets.size = 'x'",
      "x".repeat(5000),
    ]
  ) assert.throws(() => conditionsOf(wrong), { code: "invalid_argument" }, wrong);
  assert.equal(
    conditionsOf(`tags.t LIKE '${"%a".repeat(500)}b'`)(run("e", {}, {}, { t: "a".repeat(5000) })),
    false,
  );
});

Deno.test("mlflow search: an order; runs without the field come last, and those that are alike stay", () => {
  const sorted = (...by: string[]) => names(RUNS.toSorted(orderOf(by)));
  assert.equal(sorted("metrics.loss ASC"), "bacd");
  assert.equal(sorted("metrics.loss desc"), "abcd");
  assert.equal(sorted("metrics.`val loss`", "attributes.run_name DESC"), "adcb");
  assert.equal(sorted("start_time DESC"), "abcd");
  assert.throws(() => orderOf(["metrics.loss UP"]), { code: "invalid_argument" });
});

Deno.test("mlflow search: what would take long is refused, whatever the values", () => {
  const long = run("e", {}, {}, { t: "a".repeat(1_000_000) });
  const slow = conditionsOf(`tags.t LIKE '%${"a".repeat(4000)}b'`);
  assert.throws(() => slow(long), /like would compare too much/);
  assert.equal(conditionsOf("tags.t LIKE '%b%'")(long), false);
  assert.throws(() => orderOf(Array<string>(33).fill("metrics.loss")), /33 orders/);
  assert.throws(() => orderOf(["\t".repeat(5000)]), /more than 4096 characters/);
});

Deno.test("mlflow search: a series belongs to the MLflow runs with the longest prefix that fits", () => {
  const prefixes = new Set(["", "a/", "a/b/", "/"]);
  assert.deepEqual(metricKey(prefixes, "loss"), { prefix: "", key: "loss" });
  assert.deepEqual(metricKey(prefixes, "a/c/loss"), { prefix: "a/", key: "c/loss" });
  assert.deepEqual(metricKey(prefixes, "a/b/loss"), { prefix: "a/b/", key: "loss" });
  assert.deepEqual(metricKey(prefixes, "/loss"), { prefix: "/", key: "loss" });
  assert.equal(metricKey(new Set(["a/"]), "b/loss"), undefined);
});

Deno.test("mlflow points: later ones at step 0 have no step; the client reads 0 back", () => {
  const recent = new RecentPoints();
  const point = (timestamp: number, step = 0) => ({
    name: "loss",
    value: timestamp / 10,
    step,
    timestamp,
  });
  const log = (...points: MetricPoint[]) => {
    const fresh = recent.fresh(points);
    const events = eventsOf(recent.placed(fresh));
    recent.stored(fresh);
    return events;
  };
  const events = [
    ...log(point(1)),
    ...log(point(2), point(3)),
    ...log(point(3)),
    ...log(point(4, 7)),
    ...log(point(5)),
  ];
  assert.deepEqual(events.map(({ dataJson }) => JSON.parse(dataJson).global_step), [
    0,
    undefined,
    undefined,
    7,
    undefined,
  ]);
  assert.deepEqual(events.flatMap(pointsOfEvent).map(({ step }) => step), [0, 0, 0, 7, 0]);
});
