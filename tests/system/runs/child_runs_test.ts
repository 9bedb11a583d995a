import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { runVerb } from "../../cli/verb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

/** Trials as Ray Tune writes them. */
const TUNE = `
trial() { d=ray/exp/train_1a2b3_$(printf %05d $1)_$1_lr=0.$1_2026-01-01_12-00-00; mkdir -p $d
  echo '{"training_iteration": 1, "episode_reward_mean": '$1', "config": {"lr": 0.'$1'}}' >> $d/result.json
  echo '{"training_iteration": 2, "episode_reward_mean": '$1'.5, "config": {"lr": 0.'$1'}}' >> $d/result.json; }
echo '{"step": 1, "own": 1}'
i=0; while [ $i -lt 3 ]; do trial $i; i=$((i+1)); done
while [ ! -e go ]; do sleep 0.05; done
trial 7; exit 0`;

Deno.test("runs within a run: each trial has its own curves and parameters, across deaths of daemon and proxy, and ends with its parent", async (t) => {
  await using daemon = await TestDaemon.start();
  const cwd = Deno.makeTempDirSync();
  try {
    const worker = { script: "/bin/sh", arguments: ["-c", TUNE], cwd, use_grpc: false };
    const run = await submit(
      daemon,
      configOf({ name: "tune", command: ["sh"], metadata: { worker } }),
    );
    const within = async () =>
      (await daemon.client.unary(Mosaic.method.listRuns, { within: run })).runs;
    const pointsOf = async (id: string) =>
      (await records(daemon, id, "metrics")).filter(({ name }) => name === "episode_reward_mean")
        .map(({ step, value }) => `${step}:${value}`);

    await t.step("live: one run each, and the daemon's death changes nothing", async () => {
      await until(async () => (await within()).length === 3, {
        what: "three trials",
        timeoutMs: 60_000,
      });
      for (const child of await within()) {
        await until(async () => (await pointsOf(child.runId)).length === 2, { what: "its points" });
        assert.equal(child.state, "EXECUTING");
        assert.equal(child.parent, run);
      }
      await daemon.kill9();
      await daemon.restart();
      Deno.writeTextFileSync(`${cwd}/go`, "");
      await untilState(daemon, run, "TERMINATED");
    });

    await t.step(
      "ended: names, curves, parameters; the parent has its own curve only",
      async () => {
        const children = (await within()).toReversed();
        assert.deepEqual(
          children.map(({ name, state }) => `${name} ${state}`).sort(),
          [
            "tune/train-0 TERMINATED",
            "tune/train-1 TERMINATED",
            "tune/train-2 TERMINATED",
            "tune/train-7 TERMINATED",
          ],
        );
        for (const { runId, name } of children) {
          const n = name.at(-1)!;
          assert.deepEqual(await pointsOf(runId), [`1:${n}`, `2:${n}.5`]);
          const { parameters } = await getRun(daemon, runId);
          assert.deepEqual(parameters.map(({ name, valueJson }) => `${name}=${valueJson}`), [
            `lr=${Number(`0.${n}`)}`,
          ]);
        }
        assert.deepEqual(await pointsOf(run), []);
        assert.deepEqual(
          (await records(daemon, run, "metrics")).filter(({ name }) => name === "own").length,
          1,
        );
      },
    );

    await t.step("imported: the same shape, once", async () => {
      const imported = async (...options: string[]) => {
        const { code, out, err } = await runVerb(daemon, ["import", ...options, `${cwd}/ray`]);
        assert.equal(code, 0, err);
        return out;
      };
      const [top, ...trials] = (await imported("-q")).trim().split("\n");
      await until(
        async () =>
          (await daemon.client.unary(Mosaic.method.listRuns, { within: top! })).runs.length === 4,
        { what: "the trials to be within" },
      );
      assert.equal((await getRun(daemon, top!)).name, "exp");
      for (const [i, id] of trials.entries()) {
        const n = [0, 1, 2, 7][i]!;
        const { name, parent, state, parameters } = await getRun(daemon, id);
        assert.deepEqual([name, parent, state], [`exp/train-${n}`, top, "TERMINATED"]);
        assert.deepEqual(await pointsOf(id), [`1:${n}`, `2:${n}.5`]);
        assert.deepEqual(parameters.map(({ valueJson }) => valueJson), [`${Number(`0.${n}`)}`]);
      }
      const again = JSON.parse(await imported("-o", "json")) as { status: string }[];
      assert.deepEqual(new Set(again.map(({ status }) => status)), new Set(["already imported"]));
      assert.equal((await runVerb(daemon, ["delete", "--forever", top!])).code, 0);
      assert.match((await runVerb(daemon, ["show", trials[0]!])).err, /no run/);
    });

    await t.step(
      "list folds them, show names them, and verbs of processes are refused",
      async () => {
        const listed = await runVerb(daemon, ["list", "-c", "name,note"]);
        assert.match(listed.out, /tune +4 runs within/);
        assert.doesNotMatch(listed.out, /train-0/);
        const inside = await runVerb(daemon, [
          "list",
          "--within",
          run,
          "--sort=-metric.episode_reward_mean:max",
          "-q",
        ]);
        assert.equal(inside.out.trim().split("\n").length, 4);
        assert.match(
          (await runVerb(daemon, ["show", "tune/train-7"])).out,
          new RegExp(`within +${run}`),
        );
        assert.match(
          (await runVerb(daemon, ["retry", "tune/train-7"])).err,
          new RegExp(`part of the program of run ${run}`),
        );
        const file = `${cwd}/moved.mosaic`;
        const env = { MOSAIC_STATE_DIR: daemon.stateDir };
        const moved = ["export", run, "--format", "mosaic", "--out", file];
        assert.equal((await runVerb(daemon, moved, "", env)).code, 0);
        assert.equal((await runVerb(daemon, ["delete", "--forever", run])).code, 0);
        assert.match((await runVerb(daemon, ["show", "tune/train-7"])).err, /no run/);
        assert.equal((await runVerb(daemon, ["import", file], "", env)).code, 0);
        const again = await within();
        assert.deepEqual(again.map(({ name, parent }) => `${name} ${parent}`).sort(), [
          ...[0, 1, 2, 7].map((n) => `tune/train-${n} ${run}`),
        ]);
        for (const { runId, name } of again) {
          const n = name.at(-1)!;
          assert.deepEqual(await pointsOf(runId), [`1:${n}`, `2:${n}.5`]);
          const { parameters } = await getRun(daemon, runId);
          assert.deepEqual(parameters.map(({ valueJson }) => valueJson), [`${Number(`0.${n}`)}`]);
        }
      },
    );
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});

Deno.test("runs within a run: more than 256 trials, each with its points", async () => {
  await using daemon = await TestDaemon.start();
  const cwd = Deno.makeTempDirSync();
  try {
    for (let i = 0; i < 300; i++) {
      Deno.mkdirSync(`${cwd}/ray/train_1a2b3_${String(i).padStart(5, "0")}`, { recursive: true });
    }
    const script =
      `for d in ray/*; do echo '{"training_iteration": 1, "loss": 0.5}' > $d/result.json; done`;
    const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
    const run = await submit(
      daemon,
      configOf({ name: "many", command: ["sh"], metadata: { worker } }),
    );
    await untilState(daemon, run, "TERMINATED");
    const listed = await runVerb(daemon, [
      "list",
      "--within",
      run,
      "-c",
      "name,metric.loss:points",
      "-o",
      "jsonl",
    ]);
    const points = listed.out.trim().split("\n").map((line) =>
      JSON.parse(line).values["metric.loss:points"]
    );
    assert.deepEqual(points, new Array(300).fill(1));
    assert.deepEqual(
      (await records(daemon, run, "events")).filter(({ event }) => event === "source_problem"),
      [],
    );
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});

/** What Optuna prints on standard error; then another study of the same program. */
const STUDIES = `
say() { echo "[I 2026-01-01 12:00:00,123] $1" >&2; }
for n in 0 1; do
  say "Trial $n finished with value: 0.$n and parameters: {'lr': 1e-$n, 'kind': 'a'}. Best is trial 0 with value: 0.0."
done
say "Trial 2 pruned. "
echo "[W 2026-01-01 12:00:01,123] Trial 3 failed with parameters: {'lr': 0.5} because of the following error: ValueError('x')." >&2
say "Trial 0 finished with value: 7.5 and parameters: {'lr': 3.0}. Best is trial 0 with value: 7.5."`;

Deno.test("runs within a run: trials of a study have their parameters, their value and their own end", async () => {
  await using daemon = await TestDaemon.start();
  const worker = { script: "/bin/sh", arguments: ["-c", STUDIES], use_grpc: false };
  const run = await submit(
    daemon,
    configOf({ name: "study", command: ["sh"], metadata: { worker } }),
  );
  await untilState(daemon, run, "TERMINATED");
  const { runs } = await daemon.client.unary(Mosaic.method.listRuns, { within: run });
  const found = await Promise.all(runs.map(async ({ runId }) => {
    const { name, state, reason, parameters } = await getRun(daemon, runId);
    const values = (await records(daemon, runId, "metrics")).map((point) =>
      `${point.name}=${point.value}`
    );
    return [
      name,
      state,
      reason,
      parameters.map((one) => `${one.name}=${one.valueJson}`).join(),
      values.join(),
    ].join(
      " ",
    );
  }));
  assert.deepEqual(found.sort(), [
    'study/trial-0 TERMINATED  kind="a",lr=1 value=0',
    "study/trial-0 TERMINATED  lr=3 value=7.5",
    'study/trial-1 TERMINATED  kind="a",lr=0.1 value=0.1',
    "study/trial-2 CANCELLED pruned  ",
    "study/trial-3 FAULTED trial_failed lr=0.5 ",
  ]);
  const own = (await records(daemon, run, "metrics")).map(({ name, step, value }) =>
    `${name} ${step} ${value}`
  );
  assert.deepEqual(own, ["trial/value 0 0", "trial/value 1 0.1", "trial/value 0 7.5"]);
});
