import assert from "node:assert/strict";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { runVerb } from "../../cli/verb.ts";
import { until } from "../../harness/wait.ts";

Deno.test("objective: a run's own, else the daemon's, is the number of list, its order, show and plot; max_steps counts steps of metrics", async (t) => {
  await using daemon = await TestDaemon.start({
    args: ["--objective", "val/loss:min", "--objective", "walker=ret:max"],
  });
  const printed = (name: string, lines: string[], metadata = {}) => {
    const quoted = lines.map((line) => `'${line}'`).join(" ");
    return submit(
      daemon,
      configOf({ name, command: ["/bin/sh", "-c", `printf '%s\\n' ${quoted}`], metadata }),
    );
  };
  const own = await printed("own", [
    "step=1 eval/reward=5 loss=2",
    "step=2 eval/reward=9",
    "step=3 eval/reward=7",
  ], {
    objective: "eval/reward:max",
  });
  const low = await printed("low", [
    "step=1 val/loss=0.5 ep_reward=1",
    "step=2 val/loss=0.7 ep_reward=2",
  ]);
  const none = await printed("none", ["step=1 ep_reward=100 x=1"]);
  for (const run of [own, low, none]) await untilState(daemon, run, "TERMINATED");

  await t.step("show and list", async () => {
    const objectives = await Promise.all([own, low, none].map(async (run) => {
      const { name, value } = (await getRun(daemon, run)).telemetry!.objective!;
      return [name, value];
    }));
    assert.deepEqual(objectives, [["eval/reward:max", 9], ["val/loss:min", 0.5], [
      "val/loss:min",
      undefined,
    ]]);
    const listed = await runVerb(daemon, ["list", "--sort=-reward", "-o", "jsonl"]);
    assert.deepEqual(listed.out.trim().split("\n").map((line) => JSON.parse(line).name), [
      "own",
      "low",
      "none",
    ]);
    assert.match((await runVerb(daemon, ["show", own])).out, /reward +9 \(eval\/reward:max\)/);
    assert.match((await runVerb(daemon, ["show", none])).out, /reward +none yet \(val\/loss:min\)/);
    assert.match((await runVerb(daemon, ["plot", own])).out, /eval\/reward/);
  });

  await t.step("a project's, by its tag; and a trial has that of its program", async () => {
    const tagged = await printed("tagged", ["step=1 ret=3 x=1", "step=2 ret=2 x=1"], {
      tags: ["walker"],
    });
    await untilState(daemon, tagged, "TERMINATED");
    assert.deepEqual((await getRun(daemon, tagged)).telemetry!.objective!.value, 3);
    const listed = await runVerb(daemon, [
      "list",
      "-t",
      "walker",
      "-c",
      "name,reward",
      "-o",
      "csv",
    ]);
    assert.match(listed.out, /tagged,3/);
    const study = await printed("study", [
      "Trial 0 finished with value: 0.5 and parameters: {}. Best is trial 0 with value: 0.5.",
    ], { objective: "value:min" });
    await untilState(daemon, study, "TERMINATED");
    const within = await runVerb(daemon, ["list", "--within", study, "-c", "reward", "-o", "csv"]);
    assert.match(within.out, /^0\.5$/m);
  });

  await t.step("a wrong one is refused where it is given", async () => {
    await assert.rejects(
      () => printed("wrong", ["x"], { objective: "a:best" }),
      /metadata.objective.*max, min, last, mean/s,
    );
    const { code, err } = await runVerb(daemon, ["run", "--objective", "a:best", "--", "true"]);
    assert.notEqual(code, 0);
    assert.match(err, /max, min, last, mean/);
  });

  await t.step("max_steps", async () => {
    const script =
      'i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo "step=$((i * 100)) loss=0.5"; sleep 0.1; done';
    const run = await submit(
      daemon,
      configOf({ command: ["/bin/sh", "-c", script], schedule: { max_steps: 250 } }),
    );
    await until(async () => (await getRun(daemon, run)).outcome === "failed", {
      what: "the limit",
      timeoutMs: 40_000,
    });
    assert.equal((await getRun(daemon, run)).reason, "max_steps");
  });
});
