import assert from "node:assert/strict";
import { commandParameters, parametersOf } from "../../src/config/parameters.ts";
import { effective, flatParameters, MAX_PARAMETERS } from "../../src/records/parameters.ts";

const COMMANDS: [string, Record<string, unknown>][] = [
  ["train.py --lr 3e-4 --env-id CartPole-v1", { lr: 3e-4, env_id: "CartPole-v1" }],
  ["-u train.py --lr=3e-4 --seed=-1", { lr: 3e-4, seed: -1 }],
  ["train.py optim.lr=3e-4 +model=big ++x=None", { "optim.lr": 3e-4, model: "big", x: null }],
  ["train.py --cuda --no-track --gamma -0.5", { cuda: true, track: false, gamma: -0.5 }],
  ["-m rl.train --sizes 64 64 --anneal False", { sizes: [64, 64], anneal: false }],
  ["train.py --id 12345678901234567890 --n 1_000", { id: "12345678901234567890", n: 1000 }],
  ["train.py data.csv --steps .5e3 key=a=b", { steps: 500, key: "a=b" }],
  ["--episodes 300 --seed 7", { episodes: 300, seed: 7 }],
];

for (const [line, expected] of COMMANDS) {
  Deno.test(`parameters: of the command line ${line}`, () => {
    assert.deepEqual({ ...commandParameters(line.split(" ")) }, expected);
  });
}

Deno.test("parameters: of a config, the worker's config with nested names, and its command line", () => {
  const config = {
    arguments: ["unused"],
    metadata: {
      parameters: { optim: { lr: NaN } },
      worker: {
        arguments: ["train.py", "--seed", "2"],
        config: {
          run_id: "x",
          algo: "ppo",
          seed: 1,
          net: { sizes: [64, 64], act: null },
          none: {},
        },
      },
    },
  };
  assert.deepEqual(parametersOf(JSON.stringify(config).replace(`"lr":null`, `"lr":"NaN"`)), {
    parameters: [
      { name: "algo", source: "config", value: `"ppo"` },
      { name: "seed", source: "config", value: "1" },
      { name: "net.sizes", source: "config", value: "[64,64]" },
      { name: "net.act", source: "config", value: "null" },
      { name: "optim.lr", source: "config", value: `"NaN"` },
      { name: "seed", source: "command", value: "2" },
    ],
    leftOut: 0,
  });
  assert.deepEqual(parametersOf("damaged"), { parameters: [], leftOut: 0 });
});

Deno.test("parameters: their number and size are bounded, and what is left out is counted", () => {
  const many = Object.fromEntries(
    Array.from({ length: MAX_PARAMETERS + 5 }, (_, i) => [`p${i}`, i]),
  );
  const { parameters, leftOut } = parametersOf(JSON.stringify({ metadata: { parameters: many } }));
  assert.deepEqual([parameters.length, leftOut], [MAX_PARAMETERS, 5]);
  const [value] = flatParameters({ text: "x".repeat(10_000) }).values();
  assert.match(value!, /^"x{512}…"$/);
});

Deno.test("parameters: the program's word counts more than the command line's, that more than the config's", () => {
  const of = (source: string, seq: number) => ({ name: "lr", source, seq, value: source });
  const winner = (...sources: [string, number][]) =>
    effective(sources.map(([s, n]) => of(s, n))).get("lr")!.source;
  assert.equal(winner(["command", 0], ["config", 0]), "command");
  assert.equal(winner(["hparams", 4], ["wandb", 3], ["command", 0]), "hparams");
});
