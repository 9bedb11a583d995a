import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { installPythonHelper } from "../../src/os/python_helper.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { records } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { pythonTest } from "./python.ts";

const WORKER = new URL("helper_worker.py", import.meta.url).pathname;
type Json = Record<string, unknown>;

pythonTest(
  "the Python helper: everything that a program gives it becomes records, through half lines, threads and forks",
  [
    "gymnasium",
    "numpy",
  ],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const cwd = Deno.makeTempDirSync();
    const client = new MosaicClient(daemon.target, { deadlineMs: 60_000 });
    try {
      const { runId } = await client.unary(TrainerService.method.submitRun, {
        configJson: configOf({
          command: [python, WORKER],
          metadata: { worker: { script: python, arguments: [WORKER], cwd, use_grpc: false } },
        }),
      });
      const run = await until(async () => {
        const now = await client.unary(Mosaic.method.getRun, { run: runId });
        return now.outcome === "" ? undefined : now;
      }, { what: "the run to end", timeoutMs: 120_000 });
      assert.equal(run.state, "TERMINATED", run.stderrTail.join("\n"));
      assert.deepEqual(run.stderrTail.filter((line) => line.startsWith("mosaic:")), [
        "mosaic: what init was given is not recorded: TypeError: config is a int; it must be a mapping, a Namespace or a dataclass",
      ]);
      assert.deepEqual(
        [run.telemetry?.malformedLines, run.telemetry?.otherLines],
        [0n, 1n],
        "half a line, and no other",
      );

      const events = await records({ client }, runId, "events");
      const payload = (kind: string) =>
        events.filter((e) => e.event === kind).map((e) => e.payload as Json);
      assert.deepEqual(payload("parameters"), [{
        source: "init",
        values: {
          lr: 0.10000000149011612,
          layers: [64, 64],
          out: "/tmp/out",
          seed: 7,
          device: "cpu",
        },
      }]);
      assert.deepEqual(payload("checkpoint_saved"), [{ path: `${cwd}/out/model.pt`, step: 1000 }]);
      // The file is also found by itself, then without its step.
      const videos = payload("artifact").filter((artifact) => artifact.step === 5);
      assert.deepEqual(videos, [{ kind: "video", path: `${cwd}/out/run.mp4`, step: 5 }]);

      const points = await records({ client }, runId, "metrics");
      const of = (name: string) =>
        points.filter((p) => p.name === name).map((p) => [p.step, p.value]);
      assert.deepEqual(of("loss"), [[10, 0.10000000149011612], [11, null], [12, 0.25]]);
      assert.deepEqual([of("eval.score"), of("log/reward"), of("ok")], [[[10, 2.5]], [[10, 3]], [[
        10,
        1,
      ]]]);
      assert.deepEqual(of("many/129"), [[13, 129]]);
      assert.deepEqual(of("values.lr"), [], "parameters are no curve");
      const counted = Array.from({ length: 200 }, (_, i) => [i, i]);
      for (const name of ["thread0", "thread1", "thread2", "child"]) {
        assert.deepEqual(of(name), counted, name);
      }

      const steps = await records({ client }, runId, "steps");
      const episodes = await records({ client }, runId, "episodes");
      assert.deepEqual(episodes.map((e) => e.episode_index), [0, 1, 2]);
      assert.deepEqual([episodes[2]!.total_reward, episodes[2]!.steps], [1.5, 9]);
      assert.deepEqual(episodes[2]!.metadata, { success: true, seconds: 0.5 });
      assert.equal(steps.length, Number(episodes[0]!.steps) + Number(episodes[1]!.steps));
      assert.equal((steps[0]!.observation as number[]).length, 4);
    } finally {
      client.close();
      Deno.removeSync(cwd, { recursive: true });
    }
  },
);

pythonTest(
  "the Python helper gives way to a module of its name that the program has, and does nothing outside mosaic",
  [
    "sys",
  ],
  async (python) => {
    const directory = Deno.makeTempDirSync();
    const helper = `${directory}/python-helper`;
    installPythonHelper(helper);
    const run = async (path: string[], code: string) => {
      const { success, stdout, stderr } = await new Deno.Command(python, {
        args: ["-c", code],
        cwd: directory,
        env: { PYTHONPATH: path.join(":"), PYTHONDONTWRITEBYTECODE: "1", MOSAIC_RUN_ID: "" },
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.ok(success, err!);
      return out!;
    };
    const write = (path: string, text: string) => {
      Deno.mkdirSync(`${directory}/${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true });
      Deno.writeTextFileSync(`${directory}/${path}`, text);
    };
    try {
      assert.equal(
        await run(
          [helper],
          "import mosaic; mosaic.log({'a': 1}); mosaic.init(7); print(mosaic.active())",
        ),
        "False\n",
      );
      write("own/mosaic/__init__.py", "from mosaic.part import what\n");
      write("own/mosaic/part.py", "what = 'own'\n");
      assert.equal(
        await run(
          [helper, `${directory}/own`],
          "from mosaic import what; import mosaic.part; print(what)",
        ),
        "own\n",
      );
      write("spread/mosaic/part.py", "what = 'namespace'\n");
      assert.equal(
        await run([helper, `${directory}/spread`], "from mosaic.part import what; print(what)"),
        "namespace\n",
      );
      // A directory of data is no module.
      write("mosaic/data.csv", "1\n");
      assert.equal(await run([helper], "import mosaic; print(mosaic.active())"), "False\n");
      // A copy beside the program is the program's own.
      write("copy/mosaic.py", Deno.readTextFileSync(`${helper}/mosaic.py`));
      assert.equal(
        await run([`${directory}/copy`, helper], "import mosaic; print(mosaic.__file__)"),
        `${directory}/copy/mosaic.py\n`,
      );
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
);

pythonTest(
  "the Python helper: an artifact of another run is found by name, declared or not, and recorded",
  ["numpy"],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const client = new MosaicClient(daemon.target, { deadlineMs: 60_000 });
    const ended = async (name: string, code: string, metadata: Json = {}) => {
      const { runId } = await client.unary(TrainerService.method.submitRun, {
        configJson: configOf({ name, command: [python, "-c", code], metadata }),
      });
      return await until(async () => {
        const run = await client.unary(Mosaic.method.getRun, { run: runId });
        return run.outcome === "" ? undefined : run;
      }, { what: `${name} to end`, timeoutMs: 60_000 });
    };
    const write =
      "import os; d = os.environ['MOSAIC_CHECKPOINT_DIR']; os.makedirs(d, exist_ok=True); open(d + '/a.txt', 'w').write('x')";
    const source = await ended("source", write);
    await until(
      async () =>
        (await client.unary(Mosaic.method.listArtifacts, { run: source.runId })).artifacts.length >
          0,
      {
        what: "the artifact",
      },
    );
    const read = `import mosaic, sys
print(open(mosaic.use_artifact("source:checkpoints")+ "/a.txt").read(), file=sys.stderr)
print(mosaic.use_artifact("source:checkpoints/a.txt"), file=sys.stderr)
try:
    mosaic.use_artifact("source:other.txt")
except mosaic.MosaicError as error:
    print(error.code, file=sys.stderr)`;
    const reader = await ended("reader", read, { uses: ["source:checkpoints"] });
    assert.equal(reader.outcome, "succeeded", reader.stderrTail.join("\n"));
    const { uses } = await client.unary(Mosaic.method.getLineage, { run: reader.runId });
    assert.deepEqual(uses.map(({ sourceRunId, path }) => [sourceRunId, path]).sort(), [
      [source.runId, "checkpoints"],
      [source.runId, "checkpoints/a.txt"],
    ]);
    assert.deepEqual(
      Deno.readTextFileSync(`${reader.directory}/logs/${reader.workerId || "worker"}.stderr.log`)
        .trim().split("\n"),
      ["x", `${source.directory}/checkpoints/a.txt`, "not_found"],
    );
  },
);
