import assert from "node:assert/strict";
import { labelOf, writerOf } from "../../../src/readers/files/labels.ts";
import { openFormat, withoutCopies } from "../../../src/readers/formats.ts";
import { findRuns } from "../../../src/readers/import/find.ts";
import { assertSameHoweverRead, readAll } from "./harness.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const ARGS = '{\n  "env": "CartPole-v1",\n  "lr": 3e-4,\n  "layers": [64, 64],\n  "eps": NaN\n}\n';

Deno.test("parameters: the object is read once, however the file grows", () => {
  const { records, problems } = assertSameHoweverRead("parameters", bytes(ARGS));
  assert.deepEqual(problems, []);
  const values = { env: "CartPole-v1", lr: 3e-4, layers: [64, 64], eps: NaN };
  assert.deepEqual(records, [{
    kind: "params",
    origin: "config",
    wallTime: undefined,
    values,
    removed: [],
  }]);
});

Deno.test("parameters: a file that was written anew is another file, wherever it differs", () => {
  const reader = openFormat("parameters");
  reader.read(bytes(ARGS));
  assert.equal(reader.offset, ARGS.length);
  const changed = bytes(ARGS.replace("[64, 64]", "[64, 65]"));
  assert.ok(reader.isSame(bytes(ARGS)) && !reader.isSame(changed));
  reader.restart();
  assert.deepEqual(reader.read(changed).records.length, 1);
});

Deno.test("parameters: what is no object, or too large, is named and costs only itself", () => {
  const found = (text: string) =>
    readAll("parameters", bytes(text)).problems.map(({ what }) => what);
  assert.deepEqual(found("[1, 2]"), ["corrupt"]);
  assert.deepEqual(found('{"lr": 1'), ["corrupt"]);
  assert.deepEqual(found(`{"x": "${"a".repeat(1 << 20)}"}`), ["too_large"]);
});

Deno.test("parameters: beside Tune's result.json they are a copy; alone they make no run on import", async () => {
  assert.deepEqual(withoutCopies(["params.json", "result.json"]), ["result.json"]);
  assert.deepEqual(withoutCopies(["args.json", "metrics.csv"]), ["args.json", "metrics.csv"]);
  const directory = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${directory}/a`);
    await Deno.mkdir(`${directory}/b`);
    for (const at of ["a", "b"]) await Deno.writeTextFile(`${directory}/${at}/args.json`, ARGS);
    await Deno.writeTextFile(`${directory}/a/metrics.csv`, "step,loss\n1,2\n");
    const { runs } = findRuns(directory, 3);
    const real = await Deno.realPath(directory);
    assert.deepEqual(runs.map(({ files }) => files), [[
      `${real}/a/args.json`,
      `${real}/a/metrics.csv`,
    ]]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("parameters: YAML as Lightning, OmegaConf and PyYAML write it", () => {
  const text = `# made by a tool
batch_size: 64
betas: !!python/tuple
- 0.9
- 0.999
cb: &id001
  patience: 3
eps: 1.0e-08
device: 'cuda:0'
name: "a \\"b\\": c"
schedule: {type: cosine, warmup: 10}
layers: [64, 64]
none: null
on: true
path: !!python/object/apply:pathlib.PosixPath
- /data
- x
optimizers:
- name: adam
  lr: 3e-4
- name: sgd
  lr: 0.1
notes: a text that is longer than the eighty characters after which the writer of this
  file begins a new line
empty: {}
url: http://h:8/x#y
version: 1.2.3
`;
  const { records, problems } = readAll("parameters", bytes(text));
  assert.deepEqual(problems, []);
  const values = {
    ...{
      batch_size: 64,
      betas: [0.9, 0.999],
      cb: { patience: 3 },
      eps: 1e-8,
      device: "cuda:0",
      name: 'a "b": c',
    },
    ...{
      schedule: { type: "cosine", warmup: 10 },
      layers: [64, 64],
      none: null,
      on: true,
      path: ["/data", "x"],
    },
    optimizers: [{ name: "adam", lr: 3e-4 }, { name: "sgd", lr: 0.1 }],
    notes:
      "a text that is longer than the eighty characters after which the writer of this file begins a new line",
    ...{ empty: {}, url: "http://h:8/x#y", version: "1.2.3" },
  };
  assert.deepEqual(records, [{
    kind: "params",
    origin: "config",
    wallTime: undefined,
    values,
    removed: [],
  }]);
});

Deno.test("parameters: YAML that has grown since is read again; what is no list of parameters is named", () => {
  const reader = openFormat("parameters");
  reader.read(bytes("lr: 0.1\n"));
  const restored = openFormat("parameters", reader.state());
  const whole = bytes("lr: 0.1\nseed: 3\n");
  assert.deepEqual(restored.read(whole.subarray(restored.offset)), {
    records: [],
    problems: [],
    need: 1,
    again: true,
  });
  assert.equal(restored.offset, 0);
  const [record] = restored.read(whole).records;
  assert.deepEqual(record?.kind === "params" && record.values, { lr: 0.1, seed: 3 });
  for (const text of ["just prose\n", "a: [1, [2]]\n", "a: 'open\n", "- 1\n- 2\n", "a: {b: 1\n"]) {
    assert.deepEqual(
      [...new Set(readAll("parameters", bytes(text)).problems.map(({ what }) => what))],
      ["corrupt"],
      text,
    );
  }
});

Deno.test("parameters: Hydra's directory belongs to the run beside it; other config.yaml are no trackers' files", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${directory}/.hydra`);
    await Deno.writeTextFile(`${directory}/.hydra/config.yaml`, "lr: 0.1\n");
    for (const name of ["config.yaml", "hparams.yaml"]) {
      await Deno.writeTextFile(`${directory}/${name}`, "lr: 0.1\n");
    }
    await Deno.writeTextFile(`${directory}/metrics.csv`, "step,loss\n1,2\n");
    const real = await Deno.realPath(directory);
    const found = ["metrics.csv", ".hydra/config.yaml", "hparams.yaml"].map((name) =>
      `${real}/${name}`
    ).sort();
    assert.deepEqual(findRuns(directory, 3).runs.map(({ files }) => files.toSorted()), [found]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("labels: what a kind of file says, with as much of the path as makes it unique", () => {
  const none = new Map<string, string>();
  assert.equal(labelOf("/w/runs/a/events.out.tfevents.1.host.7.0", none), "a");
  assert.equal(labelOf("/w/run-1.wandb", none), "wandb");
  assert.equal(labelOf("/w/a/progress.csv", none), "progress.csv");
  assert.equal(
    labelOf("/w/a/progress.csv", new Map([["progress.csv", "/w/b/progress.csv"]])),
    "a/progress.csv",
  );
  assert.equal(
    labelOf("/w/b/3.monitor.csv", new Map([["monitor.csv", "monitor.csv"]])),
    "monitor.csv",
  );
  const [first, second] = [0, 1].map((n) => writerOf(`/w/a/events.out.tfevents.1.host.7.${n}`));
  assert.equal(first, second);
  assert.notEqual(first, writerOf("/w/a/events.out.tfevents.1.host.8.0"));
});
