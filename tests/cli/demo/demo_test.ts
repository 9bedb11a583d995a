/** `mosaic demo` as a newcomer starts it: a process of its own, with a daemon and two workers. */
import { strict as assert } from "node:assert";
import { DEMO_RUNS, demoConfig } from "../../../src/cli/demo/demo_runs.ts";
import { liveLines, plainLine, summary } from "../../../src/cli/demo/demo_text.ts";
import { runJsonOf } from "../../../src/runs/fields/run_json.ts";
import { violationsOf } from "../../../src/config/config.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { fakeRun, NOW } from "../fakes.ts";
import { PROGRAM } from "../../harness/daemon.ts";
import { killProcessesOf, processesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";

/** Runs the demo in a directory of the test's own; `body` gets its output as it grows. */
async function demo(
  args: string[],
  body: (demo: { output: () => string; child: Deno.ChildProcess; dir: string }) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "mosaic-test-" });
  const child = new Deno.Command(PROGRAM[0]!, {
    args: [...PROGRAM.slice(1), "demo", "--state-dir", dir, ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const gather = (stream: ReadableStream<Uint8Array<ArrayBuffer>>) =>
    stream.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({ write: (t) => void (output += t) }),
    );
  const gathered = Promise.all([gather(child.stdout), gather(child.stderr)]);
  try {
    await body({ output: () => output, child, dir });
  } finally {
    await killProcessesOf(dir);
    await child.status;
    await gathered;
    await Deno.remove(dir, { recursive: true });
  }
}

/** A proxy that has reported its run's end may be just about to go. */
async function nothingRuns(dir: string): Promise<void> {
  await until(() => processesOf(dir).length === 0, {
    what: "nothing to run",
    state: () => processesOf(dir),
  });
}

Deno.test("demo: two runs succeed, a summary and where the results lie, nothing left running", async () => {
  await demo(["--steps", "2000", "--step-delay-ms", "0.1"], async ({ output, child, dir }) => {
    assert.equal((await child.status).code, 0, output());
    await until(() => /The daemon is stopped/.test(output()), {
      what: "all of its output",
      state: output,
    });
    assert.match(output(), /Status page +http:\/\/127\.0\.0\.1:\d+\//);
    for (const { name } of DEMO_RUNS) {
      assert.match(output(), new RegExp(`^${name} +Succeeded +\\d+ +2,000 `, "m"));
      const directory = new RegExp(`^${name} {2}(${dir}/.+)$`, "m").exec(output())![1]!;
      assert.ok([...Deno.readDirSync(`${directory}/checkpoints`)].length > 0);
    }
    await nothingRuns(dir);
  });
});

Deno.test("demo: Ctrl-C takes everything down", async () => {
  await demo(["--step-delay-ms", "50"], async ({ output, child, dir }) => {
    await until(() => output().includes("Running"), {
      what: "a run to be EXECUTING",
      state: output,
    });
    signalProcess(processRef(child.pid)!, "SIGINT");
    assert.equal((await child.status).code, 130, output());
    await nothingRuns(dir);
  });
});

Deno.test("demo --keep: the daemon stays, and how to stop it is said", async () => {
  await demo(
    ["--keep", "--steps", "300", "--step-delay-ms", "0"],
    async ({ output, child, dir }) => {
      assert.equal((await child.status).code, 0, output());
      await until(() => /stop it/.test(output()), { what: "all of its output", state: output });
      const pid = Number(/stop it +kill (\d+)/.exec(output())![1]);
      await until(() => processesOf(dir).every((p) => p.pid === pid), {
        what: "all but the daemon to be gone",
      });
      assert.equal(processesOf(dir).length, 1);
      signalProcess(processRef(pid)!, "SIGTERM");
      await until(() => processesOf(dir).length === 0, { what: "the daemon to stop" });
    },
  );
});

Deno.test("demo: its configs are valid", () => {
  for (const spec of DEMO_RUNS) {
    assert.deepEqual(
      violationsOf(JSON.stringify(demoConfig(spec, { steps: 10, stepDelayMs: 0.5 }))),
      [],
    );
  }
});

Deno.test("demo: what is shown of a run", () => {
  const view = { run: runJsonOf(fakeRun()), rewards: [10, 20, 80] };
  assert.deepEqual(liveLines([view], { width: 80, color: false }), [
    "cart-1  Running   ████████████▍         62% 6.2k/10k ETA 3m 10s",
    "        80 episodes   20/s     reward 77.5   ▁▂█",
  ]);
  assert.equal(
    plainLine(view),
    "cart-1: Running, 80 episodes, 6,200 steps, 20/s, mean reward of the last 100 episodes 77.5 ▁▂█\n",
  );
  assert.equal(
    summary([view], NOW, false),
    "RUN     STATE    EPISODES  STEPS    TOOK  FIRST REWARD  LAST 100  LEARNING\n" +
      "cart-1  Running        80  6,200  3m 07s            10      77.5  ▁▂█\n",
  );
});
