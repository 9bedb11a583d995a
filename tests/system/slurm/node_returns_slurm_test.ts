/**
 * A real Slurm: a suspended job, a controller that is away, and a node that comes back while the
 * daemon was killed.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { Cluster, missing } from "./cluster.ts";

const [, SCRIPT] = countingWorker({ steps: 1 });
/** Ends only by SIGKILL, so Slurm needs its whole grace period. */
const STUBBORN = ["/bin/sh", "-c", `trap '' TERM; . ${SCRIPT}`, "worker", "100000", "0.2", "0"];

const placed = (command: string[], metadata: Record<string, unknown> = {}) =>
  configOf({
    command,
    metadata: {
      launcher: "slurm",
      worker: { script: command[0], arguments: command.slice(1), use_grpc: false },
      ...metadata,
    },
  });

/** Attempts of the run whose worker is alive on this host. */
function attemptsAlive(runId: string): number[] {
  const found = new Set<number>();
  for (const { pid, command } of processesOf(`/${runId}`)) {
    if (!command.includes("100000")) continue;
    try {
      const environment = Deno.readTextFileSync(`/proc/${pid}/environ`);
      const attempt = /(?:^|\0)MOSAIC_ATTEMPT=(\d+)/.exec(environment)?.[1];
      if (attempt !== undefined) found.add(Number(attempt));
    } catch {
      // It has ended meanwhile.
    }
  }
  return [...found].sort();
}

async function secondsToStop(daemon: TestDaemon): Promise<number> {
  const began = performance.now();
  assert.equal(await daemon.stop(), 0);
  return (performance.now() - began) / 1000;
}

Deno.test({
  name: "Slurm: what stops for a while, and what comes back",
  ignore: missing() !== undefined,
  async fn(t) {
    await using cluster = await Cluster.start({ killWait: 20 });
    await using daemon = await cluster.daemon({ args: ["--heartbeat-timeout", "15"] });

    await t.step(
      "a job that Slurm suspends for longer than the heartbeat timeout is shown, and goes on",
      async () => {
        const runId = await submit(
          daemon,
          placed(countingWorker({ steps: 100_000, everySeconds: 0.2 })),
        );
        await untilSteps(daemon, runId, 3, true);
        const { job } = (await getRun(daemon, runId)).placement!;
        await cluster.tool("scontrol", "suspend", job);
        await until(
          async () => /suspended/.test((await getRun(daemon, runId)).placement?.waitingFor ?? ""),
          {
            what: "the reason",
            state: () => getRun(daemon, runId),
          },
        );
        const since = performance.now();
        await until(() => performance.now() - since > 25_000, {
          what: "more than the heartbeat timeout",
        });
        assert.equal((await getRun(daemon, runId)).state, "EXECUTING");
        const before = (await steps(daemon, runId)).length;
        await cluster.tool("scontrol", "resume", job);
        await untilSteps(daemon, runId, before + 20, true);
        await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
        await untilState(daemon, runId, "CANCELLED");
      },
    );

    await t.step("a node comes back while the daemon was killed: never two workers", async () => {
      const restart = { max_attempts: 3, backoff_s: 0, on: ["infrastructure"] };
      const runId = await submit(daemon, placed(STUBBORN, { restart }));
      await untilSteps(daemon, runId, 3, true);
      const node = (await getRun(daemon, runId)).placement!.nodes[0]!;
      const stateOf = async () =>
        (await cluster.tool("sinfo", "-h", "-N", "-n", node, "-o", "%T")).trim();
      const together = new Set<string>();
      const watch = setInterval(() => together.add(attemptsAlive(runId).join("+")), 100);
      try {
        cluster.kill(`slurmd.${node}`);
        await until(async () => (await stateOf()).includes("down*"), {
          what: "the node down",
          timeoutMs: 120_000,
        });
        await daemon.kill9();
        await cluster.up();
        await daemon.restart();
        await until(async () => (await getRun(daemon, runId)).attempt === 2, {
          ...{ what: "the next attempt", timeoutMs: 180_000 },
          state: () => getRun(daemon, runId),
        });
        await untilState(daemon, runId, "EXECUTING");
        await until(() => attemptsAlive(runId).includes(2), { what: "its worker" });
      } finally {
        clearInterval(watch);
      }
      assert.deepEqual(
        [...together].filter((attempts) => attempts.includes("+")),
        [],
        "two workers at a time",
      );
      await daemon.client.unary(Mosaic.method.cancelRun, { run: runId });
      await untilState(daemon, runId, "CANCELLED");
      await until(async () => (await cluster.alive()).every(({ name }) => !name.includes(runId)), {
        ...{ what: "no job left", timeoutMs: 120_000 },
        state: () => cluster.jobs(),
      });
    });

    await t.step("without its controller, SIGTERM ends the daemon within seconds", async () => {
      const runId = await submit(
        daemon,
        placed(countingWorker({ steps: 100_000, everySeconds: 0.2 })),
      );
      await untilSteps(daemon, runId, 3, true);
      cluster.kill("slurmctld");
      await submit(daemon, placed(countingWorker({ steps: 3 })));
      await until(() => daemon.output().includes("the engine does not answer"), {
        what: "the silence to be noticed",
      });
      const seconds = await secondsToStop(daemon);
      assert.ok(seconds < 15, `${seconds}`);
      await cluster.up();
    });
  },
});
