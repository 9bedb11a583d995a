import assert from "node:assert/strict";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";
import { infoIfThere } from "../../../src/os/files/files.ts";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { signalGroup, signalProcess } from "../../../src/os/processes/signals.ts";

/** Prints numbered steps until the file that $1 names exists, then the episode, and ends with 0. */
const UNTIL_TOLD = `i=0
while [ ! -e "$0" ]; do
  printf '{"event_type":"step","episode":0,"step_index":%d,"reward":1}\\n' $i
  i=$((i + 1)); sleep 0.01
done
printf '{"event_type":"episode","episode":0,"total_reward":%d,"steps":%d}\\n' $i $i`;

function patientWorker(daemon: TestDaemon): { command: string[]; finish: () => void } {
  const file = `${daemon.stateDir}/finish-${crypto.randomUUID()}`;
  return {
    command: ["/bin/sh", "-c", UNTIL_TOLD, file],
    finish: () => Deno.writeTextFileSync(file, ""),
  };
}

async function stepsBeyond(daemon: TestDaemon, run: string, count: number): Promise<number> {
  const enough = await until(async () => {
    const stored = Number((await getRun(daemon, run)).telemetry?.steps ?? 0n);
    return stored > count ? stored : undefined;
  }, { what: `more than ${count} steps of ${run}`, state: () => daemon.output().slice(-2000) });
  return enough;
}

/** The run ended well, and its steps are 0, 1, 2 … as many as its episode says. */
async function assertWhole(daemon: TestDaemon, run: string): Promise<void> {
  const ended = await untilState(daemon, run, "TERMINATED");
  assert.equal(ended.state, "TERMINATED", ended.reason);
  const lines = await steps(daemon, run);
  assert.deepEqual(lines.map((line) => line.step_index), lines.map((_, i) => i));
  assert.deepEqual(lines.map((line) => line.seq), lines.map((_, i) => i + 1));
  assert.equal(ended.telemetry?.episodes, 1n);
}

const proxyOf = async (daemon: TestDaemon, run: string) =>
  processRef(Number((await getRun(daemon, run)).proxyPid));

testWithDaemon("processes are killed", { gpus: "1", args: ["--grace", "0.5"] }, [
  [
    "the daemon is killed in the middle of a run: the run goes on, nothing is lost or repeated",
    async (daemon) => {
      const { command, finish } = patientWorker(daemon);
      const run = await submit(
        daemon,
        configOf({ command, gpus: { requested: 1, mandatory: true } }),
      );
      const before = await stepsBeyond(daemon, run, 20);
      await daemon.kill9();
      await daemon.restart();
      await stepsBeyond(daemon, run, before + 20);
      assert.deepEqual((await getRun(daemon, run)).gpuSlots, [0]);
      finish();
      await assertWhole(daemon, run);
    },
  ],

  [
    "a worker ends while the daemon is away: its exit and its last words are not lost",
    async (daemon) => {
      const { command, finish } = patientWorker(daemon);
      const run = await submit(daemon, configOf({ command }));
      await stepsBeyond(daemon, run, 5);
      await daemon.kill9();
      finish();
      const directory = daemon.layout.runDir("custom_scripts", run);
      await until(() => infoIfThere(`${directory}/.mosaic/exit-1.json`) !== undefined, {
        what: "the exit record",
      });
      await daemon.restart();
      await assertWhole(daemon, run);
    },
  ],

  ["the proxy is killed: training goes on, and another proxy takes over", async (daemon) => {
    const { command, finish } = patientWorker(daemon);
    const run = await submit(daemon, configOf({ command }));
    const before = await stepsBeyond(daemon, run, 20);
    const proxy = await proxyOf(daemon, run);
    signalProcess(proxy!, "SIGKILL");
    await stepsBeyond(daemon, run, before + 20);
    assert.notEqual(Number((await getRun(daemon, run)).proxyPid), proxy!.pid);
    finish();
    await assertWhole(daemon, run);
  }],

  [
    "daemon and proxy are killed: the next daemon starts a proxy that takes over",
    async (daemon) => {
      const { command, finish } = patientWorker(daemon);
      const run = await submit(daemon, configOf({ command }));
      await stepsBeyond(daemon, run, 20);
      const proxy = await proxyOf(daemon, run);
      await daemon.kill9();
      signalProcess(proxy!, "SIGKILL");
      finish();
      await daemon.restart();
      await assertWhole(daemon, run);
    },
  ],

  ["a cancellation that a killed daemon did not finish is finished by the next", async (daemon) => {
    const ignoring = `trap '' TERM; ${UNTIL_TOLD}`;
    const run = await submit(
      daemon,
      configOf({ command: ["/bin/sh", "-c", ignoring, "/no/such/file"] }),
    );
    await stepsBeyond(daemon, run, 5);
    const worker = processRef(Number((await getRun(daemon, run)).workerPid))!;
    const proxy = (await proxyOf(daemon, run))!;
    // With the proxy stopped nothing can end the group before the daemon is killed.
    signalProcess(proxy, "SIGSTOP");
    const { Mosaic } = await import("../../../src/gen/mosaic/v1/mosaic_pb.ts");
    await daemon.client.unary(Mosaic.method.cancelRun, { run });
    await daemon.kill9();
    await daemon.restart();
    const ended = await untilState(daemon, run, "CANCELLED");
    assert.equal(ended.state, "CANCELLED");
    assert.equal(isAlive(worker), false);
    assert.equal(isAlive(proxy), false);
  }],

  [
    "worker and wrapper are killed with their proxy: FAULTED worker_lost, with what was printed",
    async (daemon) => {
      const { command } = patientWorker(daemon);
      const run = await submit(daemon, configOf({ command }));
      await stepsBeyond(daemon, run, 5);
      const { workerPid } = await getRun(daemon, run);
      const proxy = (await proxyOf(daemon, run))!;
      const worker = processRef(Number(workerPid))!;
      // Stopped first, so that it cannot write down how its worker ends.
      signalProcess(proxy, "SIGSTOP");
      signalGroup(worker, "SIGKILL");
      signalProcess(proxy, "SIGKILL");
      const ended = await untilState(daemon, run, "FAULTED");
      assert.equal(ended.reason, "worker_lost");
      const journal = Deno.readTextFileSync(`${ended.directory}/logs/worker.stdout.log`)
        .trimStart();
      const printed = journal.slice(0, journal.lastIndexOf("\n") + 1).split("\n").length - 1;
      assert.equal((await steps(daemon, run)).length, printed);
      await until(() => processesOf(daemon.stateDir).length === 1, {
        what: "only the daemon to be left",
        state: () => processesOf(daemon.stateDir),
      });
    },
  ],
]);
