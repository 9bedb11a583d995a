/**
 * What seldom happens to runs that a real Slurm places, and takes minutes to happen: not part of
 * CI.
 *
 *     deno test -A --lock=dev.lock tests/system/slurm/rare_rows.ts
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { readTokens } from "../../../src/wire/tokens.ts";
import { noSecondHost, SecondHost } from "../../harness/second_host.ts";
import { certificates } from "../../rpc/auth/certificates.ts";
import { Cluster, missing, nothingLeft, workersOf } from "./cluster.ts";

/**
 * An sbatch that misbehaves as a file beside it says: slow before or after, with a script whose
 * program is not there, or with one whose proxy is started by a further program (in another
 * network).
 */
const SBATCH = `#!/bin/sh
at=\${0%/*}
for script; do :; done
[ ! -e "$at/elsewhere" ] || sed -i "s#^exec #exec $(cat "$at/elsewhere") #" "$script"
[ ! -e "$at/broken" ] || sed -i 's#^exec .*#exec /nowhere/mosaic#' "$script"
[ ! -e "$at/before" ] || sleep "$(cat "$at/before")"
PATH=\${PATH#*:}
sbatch "$@"
code=$?
[ ! -e "$at/after" ] || sleep "$(cat "$at/after")"
exit $code
`;

function placed(
  command: string[],
  slurm: Record<string, unknown> = {},
  metadata: Record<string, unknown> = {},
): string {
  const worker = { script: command[0], arguments: command.slice(1), use_grpc: false };
  return configOf({ command, metadata: { launcher: "slurm", slurm, worker, ...metadata } });
}

/** Each step of each attempt once, in order. */
async function assertWhole(daemon: TestDaemon, runId: string, count?: number): Promise<void> {
  const stored = await steps(daemon, runId);
  for (const lines of Map.groupBy(stored, ({ attempt }) => attempt).values()) {
    assert.deepEqual(lines.map((line) => line.step_index), lines.map((_, i) => i));
  }
  if (count !== undefined) assert.equal(stored.length, count);
}

async function endedWell(daemon: TestDaemon, runId: string): Promise<void> {
  await until(async () => (await getRun(daemon, runId)).outcome !== "", {
    ...{ what: "the run's end", timeoutMs: 240_000 },
    state: () => getRun(daemon, runId),
  });
  await untilState(daemon, runId, "TERMINATED");
}

Deno.test({
  name: "Slurm: rare rows",
  ignore: missing() !== undefined,
  async fn(t) {
    await using cluster = await Cluster.start();
    const bin = `${cluster.directory}/bin`;
    await Deno.mkdir(bin);
    await Deno.writeTextFile(`${bin}/sbatch`, SBATCH, { mode: 0o755 });
    await using daemon = await cluster.daemon({ env: { PATH: `${bin}:${Deno.env.get("PATH")}` } });
    const misbehave = async (how: string, text: string, work: () => Promise<void>) => {
      await Deno.writeTextFile(`${bin}/${how}`, text);
      try {
        await work();
      } finally {
        await Deno.remove(`${bin}/${how}`);
      }
    };
    const jobsOf = async (runId: string) =>
      (await cluster.jobs()).filter(({ name }) => name.includes(runId));

    await t.step(
      "the daemon is away for longer than the lease: the worker is stopped, and another attempt follows",
      async () => {
        const restart = { max_attempts: 2, backoff_s: 0, on: ["infrastructure"] };
        const long = countingWorker({ steps: 100_000, everySeconds: 0.2 });
        const runId = await submit(
          daemon,
          placed(long, { lease_seconds: 10, linger_seconds: 1 }, { restart }),
        );
        await untilSteps(daemon, runId, 3, true);
        await daemon.kill9();
        await until(
          async () => (await cluster.alive()).every(({ name }) => !name.includes(runId)),
          {
            ...{ what: "the job to leave", timeoutMs: 120_000 },
          },
        );
        await daemon.restart();
        await until(async () => (await getRun(daemon, runId)).attempt === 2, {
          ...{ what: "another attempt", timeoutMs: 120_000 },
          state: () => getRun(daemon, runId),
        });
        const { transitions } = await getRun(daemon, runId);
        assert.ok(
          transitions.some(({ reason }) => reason === "lease_expired"),
          transitions.map((r) => r.reason).join(),
        );
        const before = (await steps(daemon, runId)).length;
        await untilSteps(daemon, runId, before + 3, true);
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId);
      },
    );

    await t.step(
      "sbatch answers after the daemon has given it up: the job is found by its name, and is the only one",
      async () => {
        let runId = "";
        await misbehave("after", "40", async () => {
          runId = await submit(daemon, placed(countingWorker({ steps: 5 })));
          await endedWell(daemon, runId);
        });
        assert.equal((await jobsOf(runId)).length, 1);
        await assertWhole(daemon, runId, 5);
      },
    );

    for (const how of ["before", "after"]) {
      await t.step(
        `the daemon is killed ${how} Slurm has taken the job: one job, one worker`,
        async () => {
          let runId = "";
          await misbehave(how, "4", async () => {
            runId = await submit(daemon, placed(countingWorker({ steps: 20, everySeconds: 0.1 })));
            await until(async () => (await getRun(daemon, runId)).placement?.phase === "intended", {
              what: "the intent",
            });
            if (how === "after") {
              await until(async () => (await jobsOf(runId)).length > 0, { what: "the job" });
            }
            await daemon.kill9();
          });
          await daemon.restart();
          await endedWell(daemon, runId);
          await nothingLeft(cluster, daemon, runId);
          const jobs = await jobsOf(runId);
          assert.equal(
            jobs.filter(({ state }) => state === "COMPLETED").length,
            1,
            JSON.stringify(jobs),
          );
          await assertWhole(daemon, runId, 20);
        },
      );
    }

    await t.step(
      "the proxy is missing on the node: three tries, then spawn_failed, and the job's log says why",
      async () => {
        await misbehave("broken", "", async () => {
          const runId = await submit(daemon, placed(countingWorker({ steps: 5 })));
          await assert.rejects(endedWell(daemon, runId), /spawn_failed/);
          assert.match(
            await Deno.readTextFile(`${(await getRun(daemon, runId)).directory}/logs/job.log`),
            /nowhere/,
          );
          await nothingLeft(cluster, daemon, runId);
        });
      },
    );

    await t.step(
      "slurmctld is killed right after it has taken a job, and is away for a minute: the run ends well, once",
      async () => {
        await cluster.saved();
        const runId = await submit(
          daemon,
          placed(countingWorker({ steps: 20, everySeconds: 0.1 })),
        );
        await until(async () => (await getRun(daemon, runId)).placement?.job, { what: "the job" });
        cluster.kill("slurmctld");
        await new Promise((done) => setTimeout(done, 60_000));
        await cluster.up();
        await endedWell(daemon, runId);
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId, 20);
      },
    );

    await t.step(
      "a node is drained, goes down and comes back: its run ends as node_fail and goes on elsewhere",
      async () => {
        const restart = { max_attempts: 2, backoff_s: 0, on: ["infrastructure"] };
        const long = countingWorker({ steps: 100_000, everySeconds: 0.2 });
        const runId = await submit(daemon, placed(long, {}, { restart }));
        await untilSteps(daemon, runId, 3, true);
        const node = (await getRun(daemon, runId)).placement!.nodes[0]!;
        const set = (state: string) =>
          cluster.tool("scontrol", "update", `nodename=${node}`, `state=${state}`, "reason=test");
        await set("drain");
        const before = (await steps(daemon, runId)).length;
        await untilSteps(daemon, runId, before + 3, true);
        assert.equal((await getRun(daemon, runId)).state, "EXECUTING");
        await set("down");
        await until(async () => (await getRun(daemon, runId)).attempt === 2, {
          what: "another attempt",
          timeoutMs: 120_000,
        });
        await set("resume");
        await until(async () => (await getRun(daemon, runId)).state === "EXECUTING", {
          what: "it to go on",
          timeoutMs: 120_000,
        });
        assert.notDeepEqual((await getRun(daemon, runId)).placement!.nodes, [node]);
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
        await nothingLeft(cluster, daemon, runId);
        await assertWhole(daemon, runId);
      },
    );

    await t.step(
      "200 jobs that wait: each has Slurm's reason, and a cancellation leaves none",
      async () => {
        const held = { extra: ["--hold"] };
        const runs = await Promise.all(
          Array.from(
            { length: 200 },
            () => submit(daemon, placed(countingWorker({ steps: 1 }), held)),
          ),
        );
        const all = (match: (run: Awaited<ReturnType<typeof getRun>>) => boolean) => async () => {
          for (const run of runs) if (!match(await getRun(daemon, run))) return false;
          return true;
        };
        await until(all(({ waitingFor }) => waitingFor.includes("JobHeldUser")), {
          what: "200 reasons",
          timeoutMs: 300_000,
        });
        for (const run of runs) await daemon.client.unary(Mosaic.method.cancelRun, { run });
        await until(all(({ state }) => state === "CANCELLED"), {
          what: "200 cancellations",
          timeoutMs: 300_000,
        });
        assert.deepEqual(
          (await cluster.alive()).filter(({ name }) => runs.some((run) => name.includes(run))),
          [],
        );
      },
    );
  },
});

const LONG = countingWorker({ steps: 100_000, everySeconds: 0.2 });

Deno.test({
  name:
    "Slurm: an id is given out twice: each job keeps its run, and the end of one ends nothing of the other",
  ignore: missing() !== undefined,
  async fn() {
    await using cluster = await Cluster.start();
    await using daemon = await cluster.daemon();
    const jobOf = async (run: string) => (await getRun(daemon, run)).placement?.job ?? "";
    const first = await submit(daemon, placed(LONG, { extra: ["--nodelist=n1"] }));
    await untilSteps(daemon, first, 3, true);
    await cluster.saved();
    cluster.kill("slurmctld");
    for (const name of ["job_state", "job_state.old"]) {
      await Deno.remove(`${cluster.directory}/state/${name}`).catch(() => {});
    }
    await cluster.up();
    const second = await submit(daemon, placed(LONG, { extra: ["--nodelist=n2"] }));
    await untilSteps(daemon, second, 3, true);
    assert.equal(await jobOf(second), await jobOf(first), "the id is given out again");
    await until(
      async () =>
        (await getRun(daemon, first)).placement?.waitingFor.includes("knows the job no more"),
      {
        what: "the doubt about the first",
        state: () => getRun(daemon, first).then(({ placement }) => placement),
      },
    );
    const before = (await steps(daemon, first)).length;
    await untilSteps(daemon, first, before, true);

    await daemon.client.unary(Mosaic.method.cancelRun, { run: first });
    await untilState(daemon, first, "CANCELLED");
    await until(() => workersOf(daemon, first).length === 0, { what: "no worker of the first" });
    const then = (await steps(daemon, second)).length;
    await untilSteps(daemon, second, then + 3, true);
    assert.equal((await getRun(daemon, second)).state, "EXECUTING");
    await daemon.client.unary(Mosaic.method.cancelRun, { run: second });
    await untilState(daemon, second, "CANCELLED");
    await nothingLeft(cluster, daemon, second);
    for (const run of [first, second]) await assertWhole(daemon, run);
  },
});

Deno.test({
  name:
    "Slurm: node and link are lost, the run is cancelled and tried again, the link heals: the stale worker is gone in 10 s",
  ignore: missing() !== undefined || noSecondHost() !== undefined,
  async fn() {
    using second = new SecondHost();
    await using cluster = await Cluster.start();
    const bin = `${cluster.directory}/bin`;
    await Deno.mkdir(bin);
    await Deno.writeTextFile(`${bin}/sbatch`, SBATCH, { mode: 0o755 });
    const { ca, server } = certificates(cluster.directory, second.address);
    await using daemon = await cluster.daemon({
      env: { PATH: `${bin}:${Deno.env.get("PATH")}` },
      args: [
        ...[
          "--http",
          `${second.address}:${27_000 + Deno.pid % 1000}`,
          "--auth",
          "token",
          "--grace",
          "1",
        ],
        ...["--tls-cert", server.cert, "--tls-key", server.key, "--advertise-ca", ca],
      ],
    });
    const client = new MosaicClient(daemon.target, {
      token: readTokens(daemon.layout.tokensFile)!.admin,
    });
    const reached = Object.create(daemon, { client: { value: client } }) as TestDaemon;
    try {
      await Deno.writeTextFile(`${bin}/elsewhere`, second.on().join(" "));
      const runId = await submit(reached, placed(LONG));
      await untilSteps(reached, runId, 3, true);
      await Deno.remove(`${bin}/elsewhere`);
      const node = (await getRun(reached, runId)).placement!.nodes[0]!;
      second.cut();
      cluster.kill(`slurmd.${node}`);
      const doubt = async () => (await getRun(reached, runId)).placement?.waitingFor ?? "";
      await until(async () => (await doubt()).includes("may run on"), {
        ...{ what: "the doubt to be shown", timeoutMs: 120_000 },
        state: doubt,
      });
      assert.equal((await getRun(reached, runId)).state, "EXECUTING", "no end without proof");
      await client.unary(Mosaic.method.cancelRun, { run: runId });
      await untilState(reached, runId, "CANCELLED");
      await client.unary(Mosaic.method.retryRun, { run: runId });
      const isNext = async () => {
        const { attempt, state } = await getRun(reached, runId);
        return attempt === 2 && state === "EXECUTING";
      };
      await until(isNext, {
        what: "the next attempt to run",
        timeoutMs: 60_000,
        state: () => getRun(reached, runId),
      });
      assert.equal(
        workersOf(daemon, runId).length,
        2,
        "the first attempt's worker cannot know yet",
      );
      second.heal();
      const healed = performance.now();
      await until(() => workersOf(daemon, runId).length === 1, {
        ...{ what: "the stale worker to end", timeoutMs: 10_000 },
        state: () => workersOf(daemon, runId),
      });
      console.error(
        `the stale worker was gone ${
          ((performance.now() - healed) / 1000).toFixed(1)
        } s after the link`,
      );
      // What it was told, and what it did.
      const log = await Deno.readTextFile(
        `${(await getRun(reached, runId)).directory}/logs/proxy.log`,
      );
      console.error(
        log.split("\n").filter((line) => / attempt=1 /.test(line)).slice(-6).join("\n"),
      );
      assert.ok(await isNext());
      await client.unary(Mosaic.method.cancelRun, { run: runId });
      await untilState(reached, runId, "CANCELLED");
      await until(() => workersOf(daemon, runId).length === 0, { what: "no worker" });
      await assertWhole(reached, runId);
      const byAttempt = Map.groupBy(await steps(reached, runId), ({ attempt }) => attempt);
      assert.deepEqual([...byAttempt.keys()], [1, 2]);
    } finally {
      client.close();
      await cluster.up();
    }
  },
});
