/** A trial is a pure function of the spec and its number. */
import { strict as assert } from "node:assert";
import { namesOf, trialCount, valuesAt } from "../../src/sweeps/points.ts";
import { checked, type Part, type SweepSpec } from "../../src/sweeps/spec.ts";
import { shellLine } from "../../src/base/text/terminal_text.ts";
import { trialConfig, trialRunId } from "../../src/sweeps/trial_config.ts";
import {
  arrayWords,
  conditionOf,
  extendedParts,
  gridAxis,
  partFrom,
  partsFrom,
  spaceOf,
  wholeAxis,
} from "../../src/sweeps/words.ts";
import { isUlid, newUlid } from "../../src/config/ulid.ts";
import { hasCode } from "../registry/fixture.ts";

const part = (fields: Partial<Parameters<typeof partFrom>[0]>) =>
  partFrom({ axes: [], space: [], ...fields });
const all = (parts: Part[]) =>
  Array.from(
    { length: trialCount({ parts }) },
    (_, i) => Object.fromEntries(valuesAt({ parts }, i)),
  );

function spec(fields: Partial<SweepSpec> = {}): SweepSpec {
  return checked({
    name: "ppo",
    config: { entry_point: "python", arguments: ["train.py", "--lr", "{lr}"], environment: {} },
    pass: "templates",
    parts: [part({ axes: [gridAxis("lr=1e-3,3e-4")] })],
    budget: {},
    ...fields,
  });
}

Deno.test("points: every combination once, the last parameter fastest; all points with one seed, then with the next", () => {
  const parts = [
    part({ axes: [gridAxis("a=1,2"), gridAxis("b=x,y")], seeds: wholeAxis("seed", "7..8") }),
  ];
  assert.deepEqual(all(parts).map(({ a, b, seed }) => `${a}${b}${seed}`), [
    ...["1x7", "1y7", "2x7", "2y7"],
    ...["1x8", "1y8", "2x8", "2y8"],
  ]);
  assert.deepEqual(namesOf({ parts }), ["a", "b", "seed"]);
});

Deno.test("points: random values depend on seed, draw and name only, lie in their range, and an extension continues them", () => {
  const space = [
    "lr=log(1e-5,1e-2)",
    "n=int(1,3)",
    "d=uniform(0,0.5)",
    "act=choice(relu,tanh)",
    "q=uniform(0,1,0.25)",
  ]
    .map(
      spaceOf,
    );
  const ten = [part({ random: 10, space })];
  const drawn = all(ten);
  assert.deepEqual(all(ten), drawn);
  for (const { lr, n, d, act, q } of drawn) {
    assert.ok(Number(lr) >= 1e-5 && Number(lr) <= 1e-2);
    assert.ok([1, 2, 3].includes(Number(n)) && Number(d) >= 0 && Number(d) <= 0.5);
    assert.ok(["relu", "tanh"].includes(String(act)) && Number(q) % 0.25 === 0);
  }
  assert.equal(new Set(drawn.map(({ lr }) => lr)).size, 10);
  assert.notDeepEqual(all([part({ random: 10, space, sample_seed: 1 })]), drawn);
  const extended = all(extendedParts(ten, { axes: [], space: [], random: 5 }));
  assert.deepEqual(extended.slice(0, 10), drawn);
  assert.deepEqual(extended, all([part({ random: 15, space })]));
});

Deno.test("points: an extension by seeds repeats each point once; by values it combines them with the others", () => {
  const first = [
    part({ axes: [gridAxis("a=1,2"), gridAxis("b=x")], seeds: wholeAxis("seed", "1") }),
  ];
  const seeds = extendedParts(first, { axes: [], space: [], seeds: wholeAxis("seed", "2..3") });
  assert.deepEqual(all(seeds).map(({ a, seed }) => `${a}:${seed}`), [
    "1:1",
    "2:1",
    "1:2",
    "2:2",
    "1:3",
    "2:3",
  ]);
  const more = extendedParts(seeds, { axes: [], space: [], seeds: wholeAxis("seed", "4") });
  assert.deepEqual(all(more).slice(6).map(({ a, seed }) => `${a}:${seed}`), ["1:4", "2:4"]);
  const values = extendedParts(first, { axes: [gridAxis("a=3")], space: [] });
  assert.deepEqual(all(values).slice(2), [{ a: "3", b: "x", seed: 1 }]);
  assert.throws(
    () => extendedParts(first, { axes: [gridAxis("c=3")], space: [] }),
    hasCode("invalid_argument", /no parameter c/),
  );
});

Deno.test("points: an array is its indices; 100 000 trials are counted without being listed, more are refused", () => {
  const { axis, parallel } = arrayWords("0-9:3,20%8");
  assert.equal(parallel, 8);
  assert.deepEqual(all([part({ axes: [axis] })]).map(({ index }) => index), [0, 3, 6, 9, 20]);
  const many = [part({ axes: [wholeAxis("index", "0..99999")] })];
  assert.equal(trialCount({ parts: many }), 100_000);
  assert.equal(valuesAt({ parts: many }, 99_999).get("index"), 99_999);
  assert.throws(() => valuesAt({ parts: many }, 100_000), hasCode("out_of_range"));
  const tooMany = [
    part({ axes: [wholeAxis("index", "0..99999")], seeds: wholeAxis("seed", "1,2") }),
  ];
  assert.throws(() => trialCount({ parts: tooMany }), hasCode("invalid_argument", /200000 trials/));
});

Deno.test("trials: templates fill arguments, variables and fields; other braces stay; the run's parameters are the trial's", () => {
  const config = {
    entry_point: "python",
    arguments: ["train.py", "--lr={lr}", "{a,b}", '{"x": {lr}}', "{{lr}}", "${HOME}"],
    environment: { RATE: "{lr}", NAME: "{sweep}/{trial}" },
    metadata: {
      worker: { arguments: ["{lr}"], config: { optim: { lr: "{lr}" } } },
      tags: ["mine"],
    },
  };
  const made = trialConfig(spec({ config }), newUlid(), 1);
  assert.deepEqual(made.arguments, [
    "train.py",
    "--lr=3e-4",
    "{a,b}",
    '{"x": 3e-4}',
    "{lr}",
    "${HOME}",
  ]);
  assert.deepEqual(made.environment, {
    RATE: "3e-4",
    NAME: "ppo/1",
    MOSAIC_SWEEP: "ppo",
    MOSAIC_TRIAL: "1",
  });
  const metadata = made.metadata as Record<string, unknown>;
  assert.deepEqual(metadata.worker, { arguments: ["3e-4"], config: { optim: { lr: 3e-4 } } });
  assert.deepEqual(metadata.parameters, { lr: 3e-4, sweep: "ppo" });
  assert.deepEqual(metadata.tags, ["mine", "sweep:ppo"]);
  assert.equal(made.run_name, "ppo-1");
});

Deno.test("trials: a parameter that reaches the program nowhere is refused, or appended as flags or in Hydra's form", () => {
  const config = { entry_point: "train", arguments: ["x"], environment: {} };
  assert.throws(
    () => trialConfig(spec({ config }), "", 0),
    hasCode("invalid_argument", /lr does not reach/),
  );
  assert.deepEqual(trialConfig(spec({ config, pass: "flags" }), "", 0).arguments, [
    "x",
    "--lr=1e-3",
  ]);
  assert.deepEqual(trialConfig(spec({ config, pass: "hydra" }), "", 0).arguments, ["x", "lr=1e-3"]);
  const array = spec({ config, parts: [part({ axes: [arrayWords("4").axis] })] });
  const { environment, arguments: words } = trialConfig(array, "", 0);
  assert.equal((environment as Record<string, string>).MOSAIC_ARRAY_INDEX, "4");
  assert.deepEqual(words, ["x"]);
});

Deno.test("trials: run ids are ULIDs, the same for the same trial, different for others; lines can be given to a shell", () => {
  const id = newUlid();
  const ids = Array.from({ length: 100 }, (_, i) => trialRunId(id, i));
  assert.ok(ids.every(isUlid));
  assert.equal(new Set(ids).size, 100);
  assert.deepEqual(ids[7], trialRunId(id, 7));
  assert.equal(shellLine(["a=b", "it's", "{x}"]), `a=b 'it'\\''s' '{x}'`);
});

Deno.test("trials: values that templates repeat until a config is enormous are refused before it is made", () => {
  const words = (text: string) => ({ entry_point: "python", arguments: [text], environment: {} });
  const long = "v".repeat(1 << 20);
  const axes = [{ name: "lr", values: ["short", long] }];
  const many = spec({ config: words("{lr}".repeat(400)), parts: [part({ axes })] });
  assert.equal(trialConfig(many, newUlid(), 0).run_name, "ppo-0");
  assert.throws(
    () => trialConfig(many, newUlid(), 1),
    hasCode("invalid_argument", /more than 4 MiB of values/),
  );
  const apart = { ...words(""), metadata: { list: Array.from({ length: 5 }, () => "{lr}") } };
  const listed = spec({ config: apart, parts: [part({ axes })] });
  assert.throws(
    () => trialConfig(listed, newUlid(), 1),
    hasCode("invalid_argument", /more than 4 MiB of values/),
  );
});

Deno.test("trials: a command's line spells out what a terminal would obey, and a shell reads the same", () => {
  const words = ["\x1b]0;title\x07", "it's \\ a\nb", "\u009b31m", "plain", "a b'c"];
  const line = shellLine(["printf", "%s\\0", ...words]);
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(line, /[\x00-\x1f\x7f-\x9f]/);
  const { stdout } = new Deno.Command("bash", { args: ["-c", line], env: { LC_ALL: "C.UTF-8" } })
    .outputSync();
  assert.deepEqual(new TextDecoder().decode(stdout).split("\0").slice(0, -1), words);
});

Deno.test("conditions: a grid has no point twice that differs only in a parameter that it does not have, however deep", () => {
  const pieces = {
    axes: ["opt=sgd,adam,rms", "momentum=0,0.9", "nesterov=yes,no"].map(gridAxis),
    space: [],
    when: ["momentum if opt=sgd,rms", "nesterov if momentum=0.9"].map(conditionOf),
    seeds: wholeAxis("seed", "1..2"),
  };
  const text = (point: Record<string, unknown>) => Object.values(point).join(" ");
  const points = all(partsFrom(pieces)).map(text).sort();
  assert.deepEqual(
    points,
    [1, 2].flatMap((seed) => [
      ...["sgd", "rms"].flatMap((opt) =>
        ["0", "0.9 yes", "0.9 no"].map((rest) => `${opt} ${rest} ${seed}`)
      ),
      `adam ${seed}`,
    ]).sort(),
  );
});

Deno.test("conditions: random parameters are there only if the others have such values; refused is what cannot be", () => {
  const pieces = {
    axes: [gridAxis("net=mlp,cnn")],
    random: 40,
    space: ["opt=choice(sgd,adam)", "momentum=uniform(0,1)", "n=int(1,2)", "k=int(3,5)"].map(
      spaceOf,
    ),
    when: ["momentum if opt=sgd", "k if net=cnn", "n if momentum=0..1"].map(conditionOf),
  };
  const points = all(partsFrom(pieces));
  assert.equal(points.length, 80);
  for (const { net, opt, momentum, n, k } of points) {
    assert.deepEqual([momentum !== undefined, n !== undefined, k !== undefined], [
      opt === "sgd",
      false,
      net === "cnn",
    ]);
  }
  assert.ok(points.some(({ opt }) => opt === "sgd") && points.some(({ opt }) => opt === "adam"));
  const refused = (when: string, message: RegExp) =>
    assert.throws(
      () => partsFrom({ ...pieces, when: [conditionOf(when)] }),
      hasCode("invalid_argument", message),
    );
  refused("momentun if opt=sgd", /no parameter momentun .*Did you mean momentum/);
  refused("net if opt=sgd", /net has given values and depends on opt, which is random/);
  refused("k if net=rnn", /net never is rnn, so no trial has k/);
  assert.throws(() => conditionOf("k: net=rnn"), hasCode("invalid_argument", /is no condition/));
});

Deno.test("templates: an argument that needs a parameter which the trial does not have goes, with the option before it", () => {
  const config = {
    entry_point: "python",
    arguments: [
      "train.py",
      "--opt",
      "{opt}",
      "--momentum",
      "{momentum}",
      "--name={opt}-{momentum}",
      "--lr",
      "{lr}",
    ],
    environment: { M: "m{momentum}", O: "{opt}" },
    metadata: { worker: { config: { momentum: "{momentum}", opt: "{opt}" } } },
  };
  const axes = ["opt=sgd,adam", "momentum=0.9", "lr=1"].map(gridAxis);
  const parts = partsFrom({ axes, space: [], when: [conditionOf("momentum if opt=sgd")] });
  const [first, last] = [0, 1].map((trial) => trialConfig(spec({ config, parts }), "", trial)) as [
    Record<string, unknown>,
    {
      arguments: string[];
      environment: Record<string, string>;
      metadata: { worker: { config: unknown } };
    },
  ];
  assert.deepEqual((first.arguments as string[]).slice(1, 6), [
    "--opt",
    "sgd",
    "--momentum",
    "0.9",
    "--name=sgd-0.9",
  ]);
  assert.deepEqual(last.arguments, ["train.py", "--opt", "adam", "--lr", "1"]);
  assert.deepEqual([last.environment.M, last.environment.O], [undefined, "adam"]);
  assert.deepEqual(last.metadata.worker.config, { opt: "adam" });
});
