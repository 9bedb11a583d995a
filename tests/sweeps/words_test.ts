/** What people write about sweeps, and what they are told when it is wrong. */
import { strict as assert } from "node:assert";
import { sweepFile } from "../../src/sweeps/files/sweep_file.ts";
import {
  budgetOf,
  distributionOf,
  gridAxis,
  metricOf,
  partFrom,
  rowsOf,
  stopOf,
  wholeAxis,
} from "../../src/sweeps/words.ts";
import { hasCode } from "../registry/fixture.ts";

const none = () => {
  throw new Error("no file is read");
};

Deno.test("words: values, ranges, budgets, metrics, rules", () => {
  assert.deepEqual(gridAxis("net=[64,64],[8],tanh"), {
    name: "net",
    values: [[64, 64], [8], "tanh"],
  });
  assert.deepEqual(gridAxis("n=1..4"), { name: "n", ranges: [[1, 4, 1]] });
  assert.deepEqual(wholeAxis("seed", "1..3,9"), { name: "seed", ranges: [[1, 3, 1], [9, 9, 1]] });
  assert.deepEqual(budgetOf(["24h", "5_000_000steps", "40runs"]), {
    seconds: 86_400,
    steps: 5_000_000,
    runs: 40,
  });
  assert.deepEqual(metricOf("eval/loss:min"), { name: "eval/loss", goal: "min" });
  assert.deepEqual(metricOf("a:b"), { name: "a:b", goal: "max" });
  const asha = { rule: "asha", unit: "step", min: 1000, max: 27_000, reduction: 3, brackets: 1 };
  assert.deepEqual(stopOf("asha:max=27000", {}), asha);
  assert.deepEqual(stopOf("asha", { steps: 27_000 }), asha);
  assert.equal(stopOf("hyperband:max=900", {}).brackets, 3);
  assert.deepEqual(stopOf("asha:max=27000,over=point", {}), { ...asha, over: "point" });
  assert.deepEqual(stopOf("asha:max=27000,over=iqm,min=10%", {}), {
    ...asha,
    min: 2700,
    over: "iqm",
  });
  assert.deepEqual(stopOf("asha:unit=time,min=5m", { steps: 9, seconds: 7200 }), {
    ...asha,
    ...{ unit: "time", min: 300, max: 7200 },
  });
  assert.deepEqual(stopOf("asha:unit=epoch,max=50", { steps: 9 }), {
    ...asha,
    unit: "epoch",
    min: 2,
    max: 50,
  });
});

Deno.test("words: points from CSV and JSON lines", () => {
  assert.deepEqual(rowsOf('lr,net\n1e-3,"[64, 64]"\n\n3e-4,x\n', "p.csv"), [
    { lr: "1e-3", net: "[64, 64]" },
    { lr: "3e-4", net: "x" },
  ]);
  assert.deepEqual(rowsOf('{"lr": 0.001}\n{"lr": 2, "b": true}\n', "p.jsonl"), [{ lr: 0.001 }, {
    lr: 2,
    b: true,
  }]);
});

for (
  const [what, work, message] of [
    ["a name is missing", () => gridAxis("1,2"), /has no name/],
    ["seeds are no numbers", () => wholeAxis("seed", "8..1"), /no whole numbers/],
    [
      "a distribution is misspelt",
      () => distributionOf("lgo(1,2)", "lr"),
      /lr: .*Did you mean log/,
    ],
    ["a logarithm begins at 0", () => distributionOf("log(0,1)", "lr"), /begins above 0/],
    ["a range is upside down", () => distributionOf("uniform(2,1)", "lr"), /begins above its end/],
    ["a budget has no unit", () => budgetOf(["24"]), /"24" is no budget/],
    ["a rule is not known", () => stopOf("ahsa", {}), /Did you mean asha/],
    [
      "a rule does not know the length",
      () => stopOf("asha", {}),
      /how many steps a trial has is not known/,
    ],
    [
      "median is over points",
      () => stopOf("median:max=9,over=point", {}),
      /over is "point"; it must be trial$/,
    ],
    ["median holds", () => stopOf("median:max=9,hold=2", {}), /nobody is held/],
    [
      "time goes on",
      () => stopOf("asha:max=9m,unit=time,hold=2", {}),
      /time of a trial that is held goes on/,
    ],
    [
      "a rule's unit is nearly one",
      () => stopOf("asha:unit=steps,max=9", {}),
      /Did you mean step\?/,
    ],
    [
      "epochs have no end",
      () => stopOf("asha:unit=epoch", { steps: 9 }),
      /how far epoch goes is not known/,
    ],
    [
      "a share is none",
      () => stopOf("asha:max=5%", {}),
      /max is "5%"; it must be a number above 0$/,
    ],
    [
      "a time is none",
      () => stopOf("asha:unit=time,max=2h,min=x", {}),
      /min is "x"; it must be a time such as 10m, or a share/,
    ],
    [
      "a rule's first rung is too late",
      () => stopOf("asha:min=10,max=5", {}),
      /must lie below the end/,
    ],
    ["a CSV row is short", () => rowsOf("a,b\n1,2\n3\n", "p.csv"), /p\.csv:3: 1 values.*2 names/],
    [
      "CSV without end",
      () => rowsOf(`a\n${"1\n".repeat(100_001)}"`, "p.csv"),
      /p\.csv has more than 100000 points/,
    ],
    [
      "JSON without end",
      () => rowsOf(`${'{"a":1}\n'.repeat(100_001)}x`, "p.jsonl"),
      /more than 100000 points/,
    ],
    ["a JSON line is none", () => rowsOf('{"a":1}\nx\n', "p.jsonl"), /p\.jsonl:2/],
    ["nothing is tried", () => partFrom({ axes: [], space: [] }), /nothing to try/],
    ["a sample has no space", () => partFrom({ axes: [], space: [], random: 3 }), /needs a space/],
    [
      "a parameter comes twice",
      () => partFrom({ axes: [gridAxis("a=1")], space: [], rows: [{ a: 1 }] }),
      /a is given twice/,
    ],
  ] as [string, () => unknown, RegExp][]
) {
  Deno.test(`words: refused if ${what}`, () =>
    void assert.throws(work, hasCode("invalid_argument", message)));
}

const FILE = `
name: ppo
command: [python, train.py, --lr, "{lr}"]
grid:
  lr: [1e-3, 0.0003]
  layers: 1..2
random: 4
space: {drop: "uniform(0,0.5)"}
when: {drop: {layers: [2], lr: 1e-3}}
seeds: 1..3
max_parallel: 2
budget: [24h, 40runs]
metric: eval/return:max
stop: asha:max=900
`;

Deno.test("files: mosaic's own words in YAML, and the same as JSON", () => {
  const read = sweepFile(FILE, "s.yaml", none);
  assert.deepEqual(read.pieces, {
    axes: [{ name: "lr", values: [0.001, 0.0003] }, { name: "layers", ranges: [[1, 2, 1]] }],
    space: [{ name: "drop", distribution: { type: "uniform", low: 0, high: 0.5 } }],
    when: [{ name: "drop", on: "layers", values: [2] }, {
      name: "drop",
      on: "lr",
      values: [0.001],
    }],
    random: 4,
    seeds: { name: "seed", ranges: [[1, 3, 1]] },
  });
  assert.deepEqual([read.name, read.max_parallel, read.budget], ["ppo", 2, {
    seconds: 86_400,
    runs: 40,
  }]);
  const json = JSON.stringify({ name: "ppo", command: "python train.py {lr}", grid: { lr: [1] } });
  assert.deepEqual(sweepFile(json, "s.json", none).command, ["python", "train.py", "{lr}"]);
});

Deno.test("files: a sweep of Weights & Biases is taken as it is", () => {
  const read = sweepFile(
    `
program: train.py
method: random
run_cap: 20
project: other
metric: {name: val/loss, goal: minimize}
early_terminate: {type: hyperband, min_iter: 3, eta: 2}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 1e-2}
  layers: {min: 1, max: 4}
  optim: {parameters: {name: {values: [adam, sgd]}}}
  epochs: {value: 5}
command: ["\${env}", "\${interpreter}", "\${program}", "\${args_no_hyphens}"]
`,
    "wandb.yaml",
    none,
  );
  assert.deepEqual(read.command, ["/usr/bin/env", "python", "train.py"]);
  assert.deepEqual([read.pass, read.metric, read.pieces.random], ["hydra", {
    name: "val/loss",
    goal: "min",
  }, 20]);
  assert.deepEqual(read.pieces.axes, [{ name: "epochs", values: [5] }]);
  assert.deepEqual(read.pieces.space, [
    { name: "lr", distribution: { type: "log", low: 1e-5, high: 1e-2 } },
    { name: "layers", distribution: { type: "int", low: 1, high: 4 } },
    { name: "optim.name", distribution: { type: "choice", values: ["adam", "sgd"] } },
  ]);
  assert.deepEqual(read.stop, {
    rule: "asha",
    unit: "points",
    min: 3,
    max: 192,
    reduction: 2,
    brackets: 1,
  });
  assert.match(read.notes.join(), /project/);
});

for (
  const [text, message] of [
    [
      "name: a\ngird:\n  lr: [1]\n",
      /^s\.yaml:2: gird: there is no such field\. Did you mean grid\?/,
    ],
    ["command: x\ngrid:\n  lr: [1]\n  n: 5\n", /^s\.yaml:4: grid\.n: /],
    ["space:\n  a: uniform(0,1)\n  lr: log(0,1)\n", /^s\.yaml:3: space\.lr: .*begins above 0/],
    ["name: a\nmax_parallel: 0\n", /^s\.yaml:2: max_parallel: Too small.*, not 0$/],
    [
      "name: a\nstop: ahsa:max=9\n",
      /^s\.yaml:2: stop: "ahsa" is no rule of early stopping\. Did you mean asha\?/,
    ],
    [`${"# …\n".repeat(13)}seeds: 8..1\n`, /^s\.yaml:14: seeds: "8\.\.1" names no whole numbers/],
    ["seeds: [1, two]\n", /^s\.yaml:1: seeds: must be a whole number, not "two"/],
    ["command: sh -c 'a b'\n", /^s\.yaml:1: command: .*list of words/],
    ["a: [1\nb: 2\n", /^s\.yaml:\d+: /],
    [
      "method: bayes\nparameters: {lr: {min: 0, max: 1}}\n",
      /^s\.yaml:1: method: "bayes" needs an optimizer/,
    ],
    [
      "method: random\nparameters:\n  lr: {distribution: beta, min: 1, max: 2}\n",
      /^s\.yaml:3: parameters\.lr: .*"beta"/,
    ],
    ["- 1\n", /^s\.yaml:1: /],
    ["name: a\n# one\n\n  stop: asha\n", /^s\.yaml:4: /],
  ] as [string, RegExp][]
) {
  Deno.test(`files: an error names line and field: ${JSON.stringify(text)}`, () =>
    void assert.throws(
      () => sweepFile(text, "s.yaml", none),
      hasCode("invalid_argument", message),
    ));
}
