/**
 * What is done to a run's log file while the worker writes it: torn, removed, emptied. The run ends
 * as its worker did.
 */
import assert from "node:assert/strict";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalGroup, signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { events, SteppedWorker } from "./workers.ts";

const stored = async (daemon: TestDaemon, run: string) =>
  Number((await getRun(daemon, run)).telemetry?.steps);

async function storedBecome(daemon: TestDaemon, run: string, count: number): Promise<void> {
  await until(async () => await stored(daemon, run) === count, {
    what: `${count} steps to be stored`,
    state: () => stored(daemon, run),
  });
}

/** Log file of the run's first attempt. */
const journalOf = (daemon: TestDaemon, run: string) =>
  `${daemon.layout.runDir("custom_scripts", run)}/logs/worker.stdout.log`;

/** The daemon is killed and then the proxy, so that nobody takes its place meanwhile. */
async function killBoth(daemon: TestDaemon, run: string): Promise<void> {
  const proxy = processRef(Number((await getRun(daemon, run)).proxyPid))!;
  await daemon.kill9();
  signalProcess(proxy, "SIGKILL");
}

const lostEvents = async (daemon: TestDaemon, run: string) =>
  (await events(daemon, run)).filter(({ kind }) => kind === "journal_lost");

Deno.test("a worker that is killed in the middle of a line: the torn line is counted, the whole ones are stored", async () => {
  await using daemon = await TestDaemon.start();
  const line = '{\\"event_type\\":\\"step\\",\\"step_index\\":';
  const script =
    `for i in 0 1 2; do echo "${line}$i}"; done; printf '%s' "${line}3"; while :; do sleep 0.1; done`;
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
  await storedBecome(daemon, run, 3);
  await until(() => Deno.readTextFileSync(journalOf(daemon, run)).endsWith(":3"), {
    what: "the torn line",
  });
  signalGroup(processRef(Number((await getRun(daemon, run)).workerPid))!, "SIGKILL");
  const ended = await untilState(daemon, run, "FAULTED");
  assert.match(ended.reason, /^(signal_SIGKILL|worker_lost)$/);
  assert.equal(ended.telemetry?.malformedLines, 1n);
  assert.deepEqual((await steps(daemon, run)).map((step) => step.step_index), [0, 1, 2]);
});

Deno.test("log file removed under its proxy: everything is read all the same", async () => {
  await using daemon = await TestDaemon.start();
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await storedBecome(daemon, run, 50);
  Deno.removeSync(journalOf(daemon, run));
  worker.open();
  await worker.assertWhole(daemon, run);
  assert.deepEqual(await lostEvents(daemon, run), []);
});

Deno.test("log file removed while no proxy has it: a proxy that may look finds it in the worker's hands", async () => {
  // Under its usual permissions a proxy may not look into /proc; then what it cannot read is told
  // as lost (below).
  await using daemon = await TestDaemon.start({ env: { MOSAIC_PERMISSIONS: "all" } });
  const worker = new SteppedWorker(daemon.stateDir, [50, 50, 50]);
  const run = await submit(daemon, worker.config());
  await storedBecome(daemon, run, 50);
  await killBoth(daemon, run);
  Deno.removeSync(journalOf(daemon, run));
  worker.open(0);
  await daemon.restart();
  await storedBecome(daemon, run, 100);
  worker.open(1);
  await worker.assertWhole(daemon, run);
  assert.deepEqual(await lostEvents(daemon, run), []);
});

Deno.test("log file removed for good: what nobody can read any more is told, and the run ends as its worker did", async () => {
  await using daemon = await TestDaemon.start();
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await storedBecome(daemon, run, 50);
  await killBoth(daemon, run);
  const journal = journalOf(daemon, run);
  worker.open();
  const exit = `${daemon.layout.runDir("custom_scripts", run)}/.mosaic/exit-1.json`;
  await until(() => readTextIfThere(exit), { what: "the worker to end" });
  Deno.removeSync(journal);
  await daemon.restart();
  const ended = await untilState(daemon, run, "TERMINATED");
  assert.equal(ended.exitCode, 0);
  const lost = await lostEvents(daemon, run);
  assert.equal(lost.length, 1);
  assert.match(String(lost[0]!.data.reason), /removed by somebody else/);
  assert.equal((await steps(daemon, run)).length, 50, "what was stored before is there");
});

Deno.test("log file emptied by somebody: what follows is stored, nothing twice", async () => {
  await using daemon = await TestDaemon.start();
  const worker = new SteppedWorker(daemon.stateDir, [50, 20]);
  const run = await submit(daemon, worker.config());
  await storedBecome(daemon, run, 50);
  Deno.chmodSync(journalOf(daemon, run), 0o600);
  Deno.truncateSync(journalOf(daemon, run), 0);
  // The proxy has seen it; what the worker adds until then could make up for what is gone.
  await until(async () => (await lostEvents(daemon, run)).length === 1, {
    what: "the proxy to notice",
  });
  worker.open();
  await worker.assertWhole(daemon, run);
});
