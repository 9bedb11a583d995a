/**
 * Runs that a real Slurm places: what happens to jobs and nodes, and what list and show say of it.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { RunFiles } from "../../../src/base/layout.ts";
import { planOf } from "../../../src/config/plan.ts";
import { Slurm } from "../../../src/dispatch/launch/slurm/slurm.ts";
import { conformance } from "../../dispatch/launch/conformance.ts";
import { runJsonOf } from "../../../src/runs/fields/run_json.ts";
import { Run } from "../../../src/registry/contract.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { Cluster, missing, nothingLeft } from "./cluster.ts";

const ignore = missing() !== undefined;
const LONG = countingWorker({ steps: 100_000, everySeconds: 0.2 });

interface Asked {
  command?: string[];
  slurm?: Record<string, unknown>;
  metadata?: Record<string, unknown>;
  gpus?: number;
}

function placed({ command = LONG, slurm = {}, metadata = {}, gpus = 0 }: Asked = {}): string {
  return configOf({
    command,
    gpus: { requested: gpus },
    metadata: {
      worker: { script: command[0], arguments: command.slice(1), use_grpc: false },
      launcher: "slurm",
      slurm,
      ...metadata,
    },
  });
}

/** Each step once, in order. */
async function assertWhole(
  daemon: Parameters<typeof steps>[0],
  runId: string,
  count?: number,
): Promise<void> {
  const stored = await steps(daemon, runId);
  assert.deepEqual(stored.map(({ seq }) => seq), stored.map((_, i) => i + 1));
  const perAttempt = Map.groupBy(stored, ({ attempt }) => attempt);
  for (const lines of perAttempt.values()) {
    assert.deepEqual(
      lines.map((line) => line.step_index),
      lines.map((_, i) => lines[0]!.step_index + i),
    );
  }
  if (count !== undefined) assert.equal(stored.length, count);
}

Deno.test({
  name: "Slurm: runs that it places",
  ignore,
  async fn(t) {
    await using cluster = await Cluster.start();
    await using daemon = await cluster.daemon();

    // Slurm knows no limit of less than a minute: looked at in the end.
    const warned =
      `exec 3<&0; (read -r line <&3; echo '{"event":"checkpoint_saved","payload":'"$line"'}') &`;
    const stubborn = `trap "" TERM; ${warned} . ${LONG[1]}`;
    const argv = ["-c", stubborn, ...LONG.slice(1)];
    const limited = await submit(
      daemon,
      placed({
        slurm: { time: 1, warn_seconds: 50 },
        metadata: {
          worker: { script: "/bin/sh", arguments: argv, use_grpc: false, supports_pause: true },
        },
      }),
    );

    await t.step("Slurm keeps a launcher's promises", async () => {
      const directory = await Deno.makeTempDir();
      const files = new RunFiles(directory, "");
      for (const path of [files.logs, files.control]) await Deno.mkdir(path);
      const env = { PATH: Deno.env.get("PATH")!, SLURM_CONF: cluster.conf };
      const plan = planOf(placed());
      await conformance({
        launcher: new Slurm(env),
        order: (name) => ({
          name,
          comment: "",
          plan,
          files,
          attempt: 1,
          argv: ["sleep", "600"],
          env: {},
        }),
        run: () => {},
      });
      await Deno.remove(directory, { recursive: true });
    });

    await t.step("a run ends well, with its node, its GPU and its job", async () => {
      const runId = await submit(
        daemon,
        placed({ command: countingWorker({ steps: 20 }), gpus: 1 }),
      );
      const run = await untilState(daemon, runId, "TERMINATED");
      await assertWhole(daemon, runId, 20);
      await until(async () => (await getRun(daemon, runId)).placement?.phase === "ended", {
        what: "the job's end",
      });
      const { launcher, job, nodes, gpus, end } = (await getRun(daemon, runId)).placement!;
      assert.deepEqual({ launcher, end, gpus: gpus.length, nodes: nodes.length }, {
        launcher: "slurm",
        end: "finished",
        gpus: 1,
        nodes: 1,
      });
      assert.equal((await cluster.jobs()).find(({ id }) => id === job)?.name, `mosaic-${runId}-1`);
      assert.deepEqual(run.gpuSlots, []);
      Run.parse(runJsonOf(await getRun(daemon, runId)));
    });

    await t.step("an exit code is the worker's, and no token is in Slurm's records", async () => {
      const runId = await submit(
        daemon,
        placed({ command: countingWorker({ steps: 3, exit: 3 }) }),
      );
      await assert.rejects(untilState(daemon, runId, "TERMINATED"), /exit_code_3/);
      const { job } = (await getRun(daemon, runId)).placement!;
      const told = await cluster.tool("scontrol", "-d", "show", "job", job);
      const start = JSON.parse(
        Deno.readTextFileSync(`${(await getRun(daemon, runId)).directory}/.mosaic/proxy-1.json`),
      );
      assert.match(start.sessionToken, /^[0-9a-f]{32}$/);
      assert.ok(!told.includes(start.sessionToken));
    });

    await t.step(
      "what Slurm rejects fails the run with Slurm's words; what can never work is refused",
      async () => {
        const runId = await submit(daemon, placed({ slurm: { partition: "nosuch" } }));
        await assert.rejects(
          untilState(daemon, runId, "TERMINATED"),
          /slurm_rejected: .*[Ii]nvalid partition/,
        );
        await assert.rejects(
          submit(daemon, placed({ metadata: { sandbox: "bubblewrap" } })),
          /sandbox/,
        );
        await assert.rejects(
          submit(daemon, placed({ slurm: { warn_seconds: 60 } })),
          /supports_pause: true/,
        );
      },
    );

    await t.step(
      "preflight is checked on the node: what fails ends the run, and no worker starts",
      async () => {
        const marker = `${cluster.directory}/started`;
        const failing = await submit(
          daemon,
          placed({
            command: ["/bin/sh", "-c", `touch ${marker}`],
            metadata: {
              preflight: { files: ["/no/such/data"], min_free_disk_mb: 1, gpu: true },
              restart: { max_attempts: 3 },
            },
          }),
        );
        await assert.rejects(
          untilState(daemon, failing, "TERMINATED"),
          /preflight: the file \/no\/such\/data is not there; .*; a GPU is asked for .* none on n\d/,
        );
        const run = await getRun(daemon, failing);
        assert.deepEqual([run.state, run.attempt], ["FAULTED", 1]);
        assert.ok(!existsSync(marker));
        await nothingLeft(cluster, daemon, failing);
        const preflight = { files: ["/bin/sh"], modules: ["json"], min_free_disk_mb: 1, gpu: true };
        const checked = await submit(
          daemon,
          placed({ command: countingWorker({ steps: 3 }), gpus: 1, metadata: { preflight } }),
        );
        await untilState(daemon, checked, "TERMINATED");
      },
    );

    await t.step(
      "a job that waits is INIT with Slurm's reason; cancelled, it never starts",
      async () => {
        const runId = await submit(daemon, placed({ slurm: { extra: ["--hold"] } }));
        const waiting = await until(async () => {
          const run = await getRun(daemon, runId);
          return run.waitingFor.includes("JobHeldUser") ? run : undefined;
        }, {
          what: "Slurm's reason",
          state: () => getRun(daemon, runId).then((r) => r.waitingFor),
        });
        assert.equal(waiting.state, "INIT");
        await daemon.client.unary(Mosaic.method.cancelRun, {
          run: runId,
        });
        await untilState(daemon, runId, "CANCELLED");
        await nothingLeft(cluster, daemon, runId);
      },
    );

    await t.step(
      "mosaic cancel: the run is CANCELLED when Slurm has nothing of it left",
      async () => {
        const runId = await submit(daemon, placed());
        await untilSteps(daemon, runId, 3, true);
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
        assert.deepEqual((await cluster.alive()).filter(({ name }) => name.includes(runId)), []);
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId);
      },
    );

    await t.step("somebody's scancel cancels the run, and no restart undoes it", async () => {
      const runId = await submit(
        daemon,
        placed({ metadata: { restart: { max_attempts: 3, backoff_s: 0 } } }),
      );
      await untilSteps(daemon, runId, 3, true);
      await cluster.tool("scancel", (await getRun(daemon, runId)).placement!.job);
      const run = await untilState(daemon, runId, "CANCELLED");
      assert.equal(run.reason, "job_cancelled");
      assert.equal(run.attempt, 1);
      await nothingLeft(cluster, daemon, runId);
      await assertWhole(daemon, runId);
    });

    await t.step("scancel of a job that waits cancels the run", async () => {
      const runId = await submit(daemon, placed({ slurm: { extra: ["--hold"] } }));
      const job = await until(async () => (await getRun(daemon, runId)).placement?.job, {
        what: "the job",
      });
      await cluster.tool("scancel", job);
      assert.equal((await untilState(daemon, runId, "CANCELLED")).reason, "job_cancelled");
    });

    await t.step("preemption is infrastructure: the run goes on in another attempt", async () => {
      const restart = { max_attempts: 2, backoff_s: 0, on: ["infrastructure"] };
      const runId = await submit(
        daemon,
        placed({ metadata: { restart }, slurm: { extra: ["--nodelist=n4", "--exclusive"] } }),
      );
      await untilSteps(daemon, runId, 3, true);
      const wrap = [
        "sbatch",
        "-p",
        "high",
        "-w",
        "n4",
        "--exclusive",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 3",
      ];
      await cluster.tool(...wrap);
      await until(async () => (await getRun(daemon, runId)).attempt === 2, {
        what: "another attempt",
      });
      const { transitions } = await getRun(daemon, runId);
      assert.ok(
        transitions.some(({ reason, attempt }) => attempt === 1 && reason === "preempted"),
        transitions.map((one) => one.reason).join(),
      );
      const before = (await steps(daemon, runId)).length;
      await untilSteps(daemon, runId, before + 3, true);
      await assertWhole(daemon, runId);
      await cluster.tool("scancel", `--name=mosaic-${runId}-2`);
      await untilState(daemon, runId, "CANCELLED");
      await nothingLeft(cluster, daemon, runId);
    });

    await t.step("a node that is taken down: node_fail, once its processes are gone", async () => {
      const runId = await submit(daemon, placed({ slurm: { extra: ["--nodelist=n3"] } }));
      await untilSteps(daemon, runId, 3, true);
      await cluster.tool("scontrol", "update", "nodename=n3", "state=down", "reason=test");
      await assert.rejects(untilState(daemon, runId, "TERMINATED"), /node_fail/);
      await nothingLeft(cluster, daemon, runId);
      await assertWhole(daemon, runId);
      await cluster.tool("scontrol", "update", "nodename=n3", "state=resume");
    });

    await t.step(
      "the daemon is killed while the job starts, runs and ends: nothing is lost or run twice",
      async () => {
        const runId = await submit(
          daemon,
          placed({ command: countingWorker({ steps: 60, everySeconds: 0.05 }) }),
        );
        await daemon.restart();
        await untilSteps(daemon, runId, 5, true);
        await daemon.restart();
        await untilSteps(daemon, runId, 20, true);
        await daemon.kill9();
        await until(
          async () =>
            (await cluster.tool(
              "sh",
              "-c",
              `test -e ${daemon.stateDir}/trainer/*/${runId}/.mosaic/exit-1.json && echo y`,
            )) !== "",
          { what: "the worker's end" },
        );
        await daemon.restart();
        await untilState(daemon, runId, "TERMINATED");
        await assertWhole(daemon, runId, 60);
        assert.equal((await cluster.jobs()).filter(({ name }) => name.includes(runId)).length, 1);
      },
    );

    await t.step(
      "a job whose daemon is away leaves when its worker has ended; the rest is delivered from the disk",
      async () => {
        const command = countingWorker({ steps: 40, everySeconds: 0.05 });
        const runId = await submit(daemon, placed({ command, slurm: { linger_seconds: 1 } }));
        await untilSteps(daemon, runId, 3, true);
        await daemon.kill9();
        await until(
          async () => (await cluster.alive()).every(({ name }) => !name.includes(runId)),
          {
            what: "the job to leave",
          },
        );
        await daemon.restart();
        await untilState(daemon, runId, "TERMINATED");
        await assertWhole(daemon, runId, 40);
        await nothingLeft(cluster, daemon, runId);
      },
    );

    await t.step(
      "a job whose daemon is away when it starts, starts no worker and is tried again",
      async () => {
        const slurm = { linger_seconds: 1, extra: ["--hold"] };
        const runId = await submit(
          daemon,
          placed({ command: countingWorker({ steps: 3 }), slurm }),
        );
        const job = await until(async () => (await getRun(daemon, runId)).placement?.job, {
          what: "the job",
        });
        await daemon.kill9();
        await cluster.tool("scontrol", "release", job);
        const state = async () => (await cluster.jobs()).find(({ id }) => id === job)?.state;
        await until(async () => await state() === "FAILED", { what: "the job to leave", state });
        await daemon.restart();
        const again = await until(
          async () => (await cluster.jobs()).find(({ name }) => name === `mosaic-${runId}-1.2`),
          {
            what: "the job to be submitted again",
          },
        );
        await cluster.tool("scontrol", "release", again.id);
        await untilState(daemon, runId, "TERMINATED");
        await assertWhole(daemon, runId, 3);
      },
    );

    await t.step(
      "a node whose slurmd has died for good: nothing ends while the proxy is connected",
      async () => {
        const runId = await submit(daemon, placed({ slurm: { extra: ["--nodelist=n2"] } }));
        await untilSteps(daemon, runId, 3, true);
        cluster.kill("slurmd.n2");
        await until(
          async () => (await getRun(daemon, runId)).placement?.waitingFor.includes("doubtful"),
          {
            what: "the doubt to be shown",
          },
        );
        const before = (await steps(daemon, runId)).length;
        await untilSteps(daemon, runId, before, true);
        assert.equal((await getRun(daemon, runId)).state, "EXECUTING");
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId);
        await cluster.up();
      },
    );

    await t.step(
      "the time limit, of a worker that is warned of it and ignores SIGTERM",
      async () => {
        // Slurm looks at its limits, which are whole minutes, twice a minute. Before it is made to
        // forget its jobs, this one, too.
        await until(async () => (await getRun(daemon, limited)).outcome !== "", {
          ...{ what: "the time limit", timeoutMs: 240_000 },
          state: () => cluster.jobs(),
        });
        assert.equal((await getRun(daemon, limited)).reason, "time_limit");
        const journal = Deno.readTextFileSync(
          `${(await getRun(daemon, limited)).directory}/logs/worker.stdout.log`,
        );
        assert.match(journal, /"checkpoint_saved","payload":\{"control":"checkpoint"\}/);
        await nothingLeft(cluster, daemon, limited);
        await assertWhole(daemon, limited);
      },
    );

    await t.step(
      "slurmctld is killed right after it has started a job: it forgets the job, whose proxy is believed",
      async () => {
        const runId = await submit(daemon, placed());
        await untilSteps(daemon, runId, 3, true);
        await cluster.saved();
        cluster.kill("slurmctld");
        await Deno.remove(`${cluster.directory}/state/job_state`);
        await Deno.remove(`${cluster.directory}/state/job_state.old`).catch(() => {});
        await cluster.up();
        await until(
          async () => (await getRun(daemon, runId)).placement?.waitingFor.includes("doubtful"),
          {
            what: "the doubt to be shown",
          },
        );
        const before = (await steps(daemon, runId)).length;
        await untilSteps(daemon, runId, before, true);
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId);
      },
    );

    await t.step("slurmctld is away: runs wait, those that run go on, and none fails", async () => {
      const running = await submit(daemon, placed());
      await untilSteps(daemon, running, 3, true);
      await cluster.saved();
      cluster.kill("slurmctld");
      const waiting = await submit(daemon, placed({ command: countingWorker({ steps: 5 }) }));
      await until(
        async () => (await getRun(daemon, waiting)).waitingFor.includes("does not answer"),
        {
          what: "the reason",
          state: () => getRun(daemon, waiting).then((r) => r.waitingFor),
        },
      );
      const before = (await steps(daemon, running)).length;
      await untilSteps(daemon, running, before, true);
      await cluster.up();
      await untilState(daemon, waiting, "TERMINATED");
      assert.equal((await getRun(daemon, running)).state, "EXECUTING");
      await cluster.tool("scancel", `--name=mosaic-${running}-1`);
      await untilState(daemon, running, "CANCELLED");
      await nothingLeft(cluster, daemon, running);
      await assertWhole(daemon, running);
    });
  },
});
