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
  assert.deepEqual(records, [{ kind: "params", origin: "config", wallTime: undefined, values, removed: [] }]);
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
  const found = (text: string) => readAll("parameters", bytes(text)).problems.map(({ what }) => what);
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
    assert.deepEqual(runs.map(({ files }) => files), [[`${real}/a/args.json`, `${real}/a/metrics.csv`]]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("labels: what a kind of file says, with as much of the path as makes it unique", () => {
  const none = new Map<string, string>();
  assert.equal(labelOf("/w/runs/a/events.out.tfevents.1.host.7.0", none), "a");
  assert.equal(labelOf("/w/run-1.wandb", none), "wandb");
  assert.equal(labelOf("/w/a/progress.csv", none), "progress.csv");
  assert.equal(labelOf("/w/a/progress.csv", new Map([["progress.csv", "/w/b/progress.csv"]])), "a/progress.csv");
  assert.equal(labelOf("/w/b/3.monitor.csv", new Map([["monitor.csv", "monitor.csv"]])), "monitor.csv");
  const [first, second] = [0, 1].map((n) => writerOf(`/w/a/events.out.tfevents.1.host.7.${n}`));
  assert.equal(first, second);
  assert.notEqual(first, writerOf("/w/a/events.out.tfevents.1.host.8.0"));
});
