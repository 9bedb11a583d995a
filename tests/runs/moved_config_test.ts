/** Parameters and paths of a config, as tables. */
import { strict as assert } from "node:assert";
import { moveConfig, seedName, setParameters } from "../../src/runs/moved_config.ts";
import { type JsonObject, readJson, toPlain } from "../../src/config/lossless_json.ts";

// deno-lint-ignore no-explicit-any -- a config of any shape
function changed(config: unknown, change: (config: JsonObject) => void): any {
  const object = readJson(JSON.stringify(config)) as JsonObject;
  change(object);
  return toPlain(object);
}

Deno.test("set: a parameter where the config has it, and nowhere else", () => {
  const table: [string[], string, string, string[]][] = [
    [["t.py", "--lr", "0.1"], "lr", "1e-4", ["t.py", "--lr", "1e-4"]],
    [["t.py", "--batch-size=64"], "batch_size", "8", ["t.py", "--batch-size=8"]],
    [["t.py", "optim.lr=0.1", "+seed=1"], "optim.lr", "2", ["t.py", "optim.lr=2", "+seed=1"]],
    [["t.py", "+seed=1"], "seed", "2", ["t.py", "+seed=2"]],
    [["t.py", "--x", "-0.5"], "x", "1", ["t.py", "--x", "1"]],
  ];
  for (const [words, name, value, expected] of table) {
    const given = { arguments: words, metadata: { worker: { arguments: words } } };
    const { arguments: top, metadata } = changed(
      given,
      (config) => setParameters(config, [[name, value]], []),
    );
    assert.deepEqual([top, metadata.worker.arguments], [expected, expected]);
  }
  const inner = { metadata: { worker: { config: { lr: 0.1, name: "a", net: { width: 64 } } } } };
  const { metadata } = changed(
    inner,
    (config) => setParameters(config, [["lr", "1"], ["net.width", "32"], ["name", "7"]], []),
  );
  assert.deepEqual(metadata.worker.config, { lr: 1, name: "7", net: { width: 32 } });
  assert.throws(
    () =>
      changed(
        { arguments: ["t.py", "--cuda"] },
        (config) => setParameters(config, [["cuda", "no"]], ["cuda"]),
      ),
    /--cuda of the command takes no value/,
  );
  assert.throws(
    () => changed({}, (config) => setParameters(config, [["lr", "1"]], ["rl"])),
    /no parameter "lr"/,
  );
  assert.throws(
    () =>
      changed(
        { arguments: ["t.py", "8"] },
        (config) => setParameters(config, [["lr", "9"]], ["lr"]),
      ),
    /"lr" cannot be changed: its command line names no --lr or lr=/,
  );
});

Deno.test("seed: by its name, if there is one", () => {
  assert.equal(seedName(["lr", "seed", "env.seed"]), "seed");
  assert.equal(seedName(["lr", "env.random_seed"]), "env.random_seed");
  assert.throws(
    () => seedName(["a.seed", "b.seed"]),
    /several parameters of the run are seeds: a\.seed, b\.seed/,
  );
  assert.throws(() => seedName(["seeds"]), /no parameter of the run is named seed/);
});

Deno.test("moved: paths below the repository that the copy has; data and environments stay", () => {
  const words = [
    "/r/train.py",
    "--config=/r/a.yaml",
    "--data",
    "/r/data",
    "/repo/x",
    "--out=/elsewhere",
  ];
  const given = {
    entry_point: "/r/.venv/bin/python",
    arguments: words,
    environment: { PYTHONPATH: "/r/src:/usr/lib" },
    metadata: { worker: { script: "/r/train.sh", cwd: "/r/sub", arguments: words } },
  };
  const there = ["/c/train.py", "/c/a.yaml", "/c/src", "/c/train.sh", "/c/sub"];
  const moved = changed(
    given,
    (config) => moveConfig(config, "/r", "/c", (path) => there.includes(path)),
  );
  const expected = [
    "/c/train.py",
    "--config=/c/a.yaml",
    "--data",
    "/r/data",
    "/repo/x",
    "--out=/elsewhere",
  ];
  assert.deepEqual(moved, {
    entry_point: "/r/.venv/bin/python",
    arguments: expected,
    environment: { PYTHONPATH: "/c/src:/usr/lib" },
    metadata: { worker: { script: "/c/train.sh", cwd: "/c/sub", arguments: expected } },
  });
});
