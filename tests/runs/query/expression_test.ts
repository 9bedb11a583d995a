import assert from "node:assert/strict";
import { queryColumn } from "../../../src/runs/query/query_columns.ts";
import { Budget, fits, parseExpression, type Value } from "../../../src/runs/query/expression.ts";

const RUN: Record<string, Value> = {
  lr: 3e-4,
  env_id: "CartPole-v1",
  cuda: true,
  tags: ["sweep", "ppo"],
  "metric.eval/mean_reward:max": 195,
  "odd name": "x y",
  seed: 1,
  id: "007",
  state: "FAULTED",
};

const CASES: [string, boolean][] = [
  ["lr<1e-3", true],
  ["lr<1e-3 and env_id=CartPole-v1", true],
  ["lr>=0.0003 and lr<=0.0003 and not lr>0.0003", true],
  ["seed=2 or seed=1 and lr=9", false],
  ["(seed=2 or seed=1) and lr=3e-4", true],
  ["seed in (2, 1)", true],
  ["env_id in ('Pong', \"CartPole-v1\")", true],
  ["metric.eval/mean_reward:max > 100", true],
  ["env_id ~ cart*v1 AND NOT env_id ~ v1*cart", true],
  ["tags=sweep and tags!=dqn", true],
  ["`odd name`='x y'", true],
  ["missing=1 or missing<1 or missing", false],
  ["missing!=1 and cuda and cuda=true", true],
  ["env_id<5", false],
  ["env_id like 'cart%' or env_id like 'Cart%v2'", false],
  ["env_id ilike 'cart_ole-%' and not missing like '%'", true],
  ["id='007' and id!=7", true],
  ["state=Failed and state=faulted and state in (running, FAULTED) and state!=Succeeded", true],
  ["state!=failed or state=executing", false],
];

for (const [text, expected] of CASES) {
  Deno.test(`filter: ${text}`, () => {
    assert.equal(fits(parseExpression(text), (name) => RUN[name], new Budget()), expected);
  });
}

const WRONG: [string, RegExp][] = [
  ["lr <", /at character 5: here is the end, and a value is expected/],
  ["lr = 1 seed = 2", /at character 8: .*and, or or the end.*▸seed/],
  ["(lr = 1", /at character 8: .*\) is expected/],
  ["= 1", /at character 1: .*a column/],
  ["lr in 1", /at character 7: .*\( is expected/],
  ["a = 'x", /at character 5: this text has no closing quote/],
  ["", /a column is expected/],
  ["(".repeat(80), /50 levels deep/],
];

for (const [text, message] of WRONG) {
  Deno.test(`filter: ${text.slice(0, 20)} is refused with the position`, () => {
    assert.throws(() => parseExpression(text), { code: "invalid_argument", message });
  });
}

Deno.test("columns: parameters, metrics with their aggregate, runs' own; others are refused with a suggestion", () => {
  assert.deepEqual(queryColumn("param.optim.lr"), { type: "param", name: "optim.lr" });
  assert.deepEqual(queryColumn("metric.a/b:max"), {
    type: "metric",
    name: "a/b",
    aggregate: "max",
  });
  assert.deepEqual(queryColumn("metric.a:b:last"), {
    type: "metric",
    name: "a:b",
    aggregate: "last",
  });
  assert.throws(() => queryColumn("metric.a:maxi"), /no "maxi".*Did you mean max/);
  assert.throws(() => queryColumn("nam"), /Did you mean name/);
});
