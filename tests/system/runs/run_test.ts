import assert from "node:assert/strict";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { LONG_TESTS } from "../../harness/long.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";

/** Each has a proxy of its own, whose start takes a fifth of a second of a processor. */
const MANY = LONG_TESTS ? 20 : 8;

/** Steps 0 … count-1, each once and in order, seq contiguous from 1. */
function assertAll(lines: Awaited<ReturnType<typeof steps>>, count: number): void {
  assert.deepEqual(lines.map((line) => line.seq), Array.from({ length: count }, (_, i) => i + 1));
  assert.deepEqual(
    lines.map((line) => line.step_index),
    Array.from({ length: count }, (_, i) => i),
  );
}

Deno.test("a run: everything its worker printed is stored, and its outcome is its worker's", async (t) => {
  await using daemon = await TestDaemon.start({ gpus: "2" });

  await t.step("exit 0 is TERMINATED, with all steps", async () => {
    const run = await submit(
      daemon,
      configOf({
        command: countingWorker({ steps: 2000 }),
        gpus: { requested: 2, mandatory: true },
      }),
    );
    const ended = await untilState(daemon, run, "TERMINATED");
    assert.equal(ended.state, "TERMINATED", ended.reason);
    assert.equal(ended.exitCode, 0);
    assertAll(await steps(daemon, run), 2000);
    assert.equal(ended.telemetry?.episodes, 1n);
    assert.deepEqual(ended.gpuSlots, []);
  });

  await t.step("exit 3 is FAULTED and says so, with the last lines of stderr", async () => {
    const command = [
      "/bin/sh",
      "-c",
      "echo 'ModuleNotFoundError: No module named \"gym\"' >&2; exit 3",
    ];
    const run = await submit(daemon, configOf({ command }));
    const ended = await untilState(daemon, run, "FAULTED", "TERMINATED");
    assert.equal(ended.reason, "exit_code_3");
    assert.match(ended.hint, /"gym" is not installed/);
    assert.match(ended.stderrTail.join("\n"), /No module named/);
  });

  await t.step("a program that is not there is FAULTED with its name", async () => {
    const run = await submit(daemon, configOf({ command: ["/no/such/program"] }));
    const ended = await untilState(daemon, run, "FAULTED", "TERMINATED");
    assert.match(ended.reason, /^spawn_failed: .*\/no\/such\/program/);
  });

  await t.step(
    "a failed attempt is followed by the next, which knows its number and checkpoint",
    async () => {
      const script =
        `printf '{"event":"checkpoint_saved","payload":{"checkpoint_path":"/c/7","step":7}}\\n'
      printf '{"event_type":"step","step_index":%d,"episode":0,"reward":0}\\n' "$MOSAIC_ATTEMPT"
      [ "$MOSAIC_ATTEMPT" = 2 ] && [ "$MOSAIC_RESUME_FROM" = /c/7 ]`;
      const metadata = { restart: { max_attempts: 3, backoff_s: 0 } };
      const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script], metadata }));
      const ended = await untilState(daemon, run, "TERMINATED");
      assert.equal(ended.attempt, 2);
      assert.deepEqual((await steps(daemon, run)).map((line) => [line.attempt, line.step_index]), [[
        1,
        1,
      ], [2, 2]]);
    },
  );

  await until(() => processesOf(daemon.stateDir).length === 1, {
    what: "only the daemon to be left",
    state: () => processesOf(daemon.stateDir),
  });
});

testWithDaemon("runs that share a daemon", { gpus: "1", args: ["--grace", "0.3"] }, [
  [
    "cancel: nothing of the group is left, not even a grandchild that ignores SIGTERM",
    async (daemon) => {
      const script = `printf '{"event_type":"step","step_index":0,"episode":0,"reward":0}\\n'
    sh -c 'trap "" TERM; while :; do sleep 1; done' & wait`;
      const run = await submit(
        daemon,
        configOf({ command: ["/bin/sh", "-c", script], gpus: { requested: 1 } }),
      );
      await untilState(daemon, run, "EXECUTING");
      await daemon.client.unary(
        (await import("../../../src/gen/mosaic/v1/mosaic_pb.ts")).Mosaic.method.cancelRun,
        {
          run,
        },
      );
      const ended = await untilState(daemon, run, "CANCELLED");
      assert.equal(ended.state, "CANCELLED");
      assert.equal(ended.reason, "user_cancel");
      const left = processesOf(`${daemon.layout.runDir("custom_scripts", run)}`).filter((p) =>
        !p.command.includes("proxy")
      );
      assert.deepEqual(left, []);
      assert.equal((await getRun(daemon, run)).gpuSlots.length, 0);
    },
  ],

  [
    "many runs: more at one time than there are cores end as they should, with all they printed",
    async (daemon) => {
      const runs = await Promise.all(
        Array.from(
          { length: MANY },
          () => submit(daemon, configOf({ command: countingWorker({ steps: 50 }) })),
        ),
      );
      for (const run of runs) {
        const ended = await untilState(daemon, run, "TERMINATED");
        assert.equal(ended.state, "TERMINATED", ended.reason);
        assertAll(await steps(daemon, run), 50);
      }
    },
  ],

  [
    "run: the caller's variables reach the program; the failure of one that lacked a secret names it",
    async (daemon) => {
      const script =
        'echo "{\\"metric\\":\\"x\\",\\"mode\\":\\"$WANDB_MODE\\"}"; echo "api_key not configured: $WANDB_API_KEY" >&2; exit 1';
      const { stdout, stderr } = await new Deno.Command(PROGRAM[0]!, {
        args: [
          ...PROGRAM.slice(1),
          "run",
          "--gpus",
          "0",
          "--state-dir",
          daemon.stateDir,
          "--",
          "sh",
          "-c",
          script,
        ],
        env: {
          PATH: Deno.env.get("PATH")!,
          HOME: Deno.env.get("HOME")!,
          DENO_DIR: Deno.env.get("DENO_DIR") ?? "",
          WANDB_MODE: "offline",
          WANDB_API_KEY: "0123456789",
        },
        clearEnv: true,
        stdout: "piped",
        stderr: "piped",
      }).output();
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
      const run = await untilState(daemon, text(stdout), "FAULTED");
      assert.match(text(stderr), /does not get WANDB_API_KEY of your environment/);
      assert.deepEqual(run.stderrTail, ["api_key not configured: "]);
      assert.match(run.hint, /mosaic run -e WANDB_API_KEY/);
      const { environment } = JSON.parse(run.configJson);
      assert.equal(environment.WANDB_MODE, "offline");
      assert.equal(environment.WANDB_API_KEY, undefined);
      const [log] = [...Deno.readDirSync(`${run.directory}/logs`)].filter(({ name }) =>
        name.endsWith("stdout.log")
      );
      assert.match(Deno.readTextFileSync(`${run.directory}/logs/${log!.name}`), /"mode":"offline"/);
    },
  ],

  [
    "run: variables that a run does not get are named once, and again when there are others",
    async (daemon) => {
      const run = async (env: Record<string, string>) => {
        const { success, stderr } = await new Deno.Command(PROGRAM[0]!, {
          args: [
            ...PROGRAM.slice(1),
            "run",
            "--gpus",
            "0",
            "--state-dir",
            daemon.stateDir,
            "--",
            "sh",
            "-c",
            "true",
          ],
          env: {
            PATH: Deno.env.get("PATH")!,
            HOME: Deno.env.get("HOME")!,
            DENO_DIR: Deno.env.get("DENO_DIR") ?? "",
            ...env,
          },
          clearEnv: true,
          stdout: "null",
          stderr: "piped",
        }).output();
        const text = new TextDecoder().decode(stderr);
        assert.ok(success, text);
        return /does not get (.*) of your environment/.exec(text)?.[1];
      };
      assert.equal(await run({ ONE_TOKEN: "s3cret", TWO_TOKEN: "s3cret" }), "ONE_TOKEN, TWO_TOKEN");
      assert.equal(await run({ ONE_TOKEN: "s3cret", TWO_TOKEN: "s3cret" }), undefined);
      assert.equal(
        await run({ ONE_TOKEN: "s3cret", THREE_TOKEN: "s3cret" }),
        "ONE_TOKEN, THREE_TOKEN",
      );
    },
  ],
]);
