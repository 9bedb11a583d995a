/**
 * No file descriptor is left: in the daemon, in a proxy. The limit of a living process is lowered
 * and raised again.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { connect } from "../../../src/wire/client/client.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { configOf } from "../../harness/configs.ts";
import { buildMosaic } from "../../harness/built.ts";
import { BUILT, PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { SteppedWorker } from "./workers.ts";

/** How many descriptors the process may have; none beyond what it has when `count` is low. */
function limitDescriptors(pid: number, count: number): void {
  const { success, stderr } = new Deno.Command("prlimit", {
    args: ["--pid", String(pid), `--nofile=${count}:`],
    stdin: "null",
  }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

const LOW = 8;
const ENOUGH = 1024;
const SHORT = /"msg":"no file descriptor is left/;

/** Lines of the daemon's log with this message. */
function said(daemon: TestDaemon, message: RegExp): number {
  return daemon.output().split("\n").filter((line) => message.test(line)).length;
}

async function untilBothPortsAnswer(daemon: TestDaemon): Promise<void> {
  const state = () => daemon.output().slice(-2000);
  await until(async () => {
    const fresh = connect({ target: daemon.target, deadlineMs: 2000 });
    try {
      return (await fresh.unary(Mosaic.method.getHost, {})).pid === BigInt(daemon.pid);
    } catch {
      return false;
    } finally {
      fresh.close();
    }
  }, { what: "new clients to be accepted", state });
  await until(async () => {
    const answer = await fetch(`http://${daemon.http}/readyz`, {
      signal: AbortSignal.timeout(2000),
    }).catch(() => null);
    await answer?.body?.cancel();
    return answer?.ok;
  }, { what: "the page to be served, and to be ready", state });
}

async function isHealthy(daemon: TestDaemon): Promise<boolean> {
  return (await daemon.client.unary(TrainerService.method.getHealth, {})).healthy;
}

/** Opens connections until none is taken any more, or `most` are open. */
async function flood(address: string, most: number): Promise<Deno.Conn[]> {
  const [hostname, port] = address.split(":");
  const opened = await Promise.allSettled(
    Array.from({ length: most }, () => Deno.connect({ hostname: hostname!, port: Number(port) })),
  );
  return opened.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
}

// From source the runtime itself fails here: it transpiles anew to say where an error came from,
// and panics (docs/reference/development.md).
const directory = Deno.makeTempDirSync({ prefix: "mosaic-built-" });
const MOSAIC = BUILT ?? `${directory}/mosaic`;
Deno.test.beforeAll(async () => {
  if (BUILT === undefined) await buildMosaic(MOSAIC);
});
Deno.test.afterAll(() => Deno.removeSync(directory, { recursive: true }));

Deno.test("daemon without descriptors: it lives, says so once, takes no run, and answers on both ports afterwards", async () => {
  await using daemon = await TestDaemon.start({ program: [MOSAIC] });
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 50);
  const process = processRef(daemon.pid)!;
  const connections: Deno.Conn[] = [];
  limitDescriptors(daemon.pid, LOW);
  try {
    await until(() => said(daemon, SHORT), { what: "the daemon to say so" });
    // It says so, or cannot even be reached: whoever connects finds nobody who could accept.
    await assert.rejects(submit(daemon, new SteppedWorker(daemon.stateDir, [20]).config()), {
      code: "unavailable",
    });
    assert.equal(await isHealthy(daemon).catch(() => false), false);
    // Connections that nobody can accept; a listener that has failed already refuses or resets
    // them.
    for (const address of [daemon.address, daemon.address, daemon.http]) {
      connections.push(...await flood(address, 1));
    }
    // A worker that ends meanwhile, and whose exit nobody can take.
    worker.open();
    await until(() => said(daemon, /run could not be supervised/), { what: "the exit to arrive" });
    limitDescriptors(daemon.pid, ENOUGH);
    await untilBothPortsAnswer(daemon);
    await worker.assertWhole(daemon, run);
  } finally {
    limitDescriptors(daemon.pid, ENOUGH);
    connections.forEach((connection) => connection.close());
  }
  assert(isAlive(process), daemon.output());
  await untilBothPortsAnswer(daemon);
  assert.equal(await isHealthy(daemon), true);
  assert.equal(said(daemon, SHORT), 1, daemon.output());
  assert(said(daemon, /run could not be supervised/) <= 3, daemon.output());
});

Deno.test("daemon under a flood of connections: the page gives way, runs go on, and both ports answer afterwards", async () => {
  await using daemon = await TestDaemon.start({
    program: ["/bin/sh", "-c", 'ulimit -n 160; exec "$@"', "sh", MOSAIC],
  });
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 50);
  const process = processRef(daemon.pid)!;
  const connections: Deno.Conn[] = [];
  try {
    connections.push(...await flood(daemon.http, 200), ...await flood(daemon.address, 200));
    await until(() => said(daemon, /no file descriptor is left/), {
      what: "the daemon to run short",
    });
    worker.open();
    // What floods goes with the listener that gave way, so that there are descriptors again.
    await untilBothPortsAnswer(daemon);
    await worker.assertWhole(daemon, run);
  } finally {
    connections.forEach((connection) => connection.close());
  }
  assert(isAlive(process), daemon.output());
  await untilBothPortsAnswer(daemon);
  const next = new SteppedWorker(daemon.stateDir, [20]);
  await next.assertWhole(daemon, await submit(daemon, next.config()));
});

Deno.test("daemon without descriptors: checkpoints need no thread, and have one when there are some again", async () => {
  await using daemon = await TestDaemon.start({ program: [MOSAIC] });
  const stop = `${daemon.stateDir}/stop`;
  // Over two megabytes a second of events, which are stored as they are: the log of the store is
  // long again and again.
  const script = `pad=$(printf '%60000s' '' | tr ' ' x); i=0
while [ ! -e "$0" ]; do
  printf '{"event_type":"step","step_index":%d}\\n' $i; i=$((i + 1))
  for _ in 1 2 3 4 5 6 7 8; do printf '{"event_type":"metrics","data":{"note":"%s"}}\\n' "$pad"; done
  sleep 0.2
done`;
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script, stop] }));
  await untilState(daemon, run, "EXECUTING");
  const state = () => daemon.output().slice(-2000);
  limitDescriptors(daemon.pid, LOW);
  try {
    await until(() => said(daemon, /no checkpoint thread \(.*own thread/), {
      what: "a checkpoint without a thread",
      state,
    });
  } finally {
    limitDescriptors(daemon.pid, ENOUGH);
  }
  await until(() => said(daemon, /checkpoints .* in a thread of their own again/), {
    what: "the thread to be back",
    state,
  });
  Deno.writeTextFileSync(stop, "");
  const { telemetry } = await untilState(daemon, run, "TERMINATED");
  const stored = await steps(daemon, run);
  assert(
    stored.length > 40 && stored.every((step, i) => step.step_index === i),
    `${stored.length} steps`,
  );
  assert.equal(telemetry?.events, BigInt(8 * stored.length));
  assert.equal(said(daemon, /no checkpoint thread/), 1, daemon.output());
});

Deno.test("proxy without descriptors: it lives, waits, and goes on when there are some again", async () => {
  await using daemon = await TestDaemon.start({ program: [MOSAIC] });
  const worker = new SteppedWorker(daemon.stateDir, [50, 500]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 50);
  const proxy = processRef(Number((await getRun(daemon, run)).proxyPid))!;
  limitDescriptors(proxy.pid, LOW);
  try {
    await daemon.kill9();
    worker.open();
    const log = `${daemon.layout.runDir("custom_scripts", run)}/logs/proxy.log`;
    await until(() => /delivery interrupted/.test(Deno.readTextFileSync(log)), {
      what: "the proxy to say so",
    });
    await daemon.restart();
    // The proxy cannot connect; nor can it find out that its worker is gone.
    limitDescriptors(proxy.pid, ENOUGH);
    await worker.assertWhole(daemon, run);
  } finally {
    if (isAlive(proxy)) limitDescriptors(proxy.pid, ENOUGH);
  }
  assert.equal((await untilState(daemon, run, "TERMINATED")).exitCode, 0);
});

Deno.test("daemon without descriptors: a cancellation and a reset are done or refused, and no process is left", async () => {
  await using daemon = await TestDaemon.start({ program: [MOSAIC] });
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 50);
  const leader = processRef(Number((await getRun(daemon, run)).workerPid))!;
  const process = processRef(daemon.pid)!;
  /** Asks while there are none; a refusal says that it can be asked again. */
  const ask = async (call: () => Promise<unknown>) => {
    const before = said(daemon, SHORT);
    limitDescriptors(daemon.pid, LOW);
    try {
      await until(() => said(daemon, SHORT) > before, { what: "the daemon to say so" });
      await call().catch((error) => assert.equal(error.code, "unavailable", String(error)));
    } finally {
      limitDescriptors(daemon.pid, ENOUGH);
    }
    assert(isAlive(process), daemon.output());
    await untilBothPortsAnswer(daemon);
  };
  const cancel = () => daemon.client.unary(Mosaic.method.cancelRun, { run, graceSeconds: 1 });
  await ask(cancel);
  if ((await getRun(daemon, run)).state !== "CANCELLED") {
    await cancel().catch((error) => assert.equal(error.code, "failed_precondition", String(error)));
  }
  await untilState(daemon, run, "CANCELLED");
  await until(() => !isAlive(leader), { what: "the worker to be gone" });

  const reset = () => daemon.client.unary(Mosaic.method.resetRun, { run });
  await ask(reset);
  if ((await getRun(daemon, run)).state === "CANCELLED") await reset();
  worker.open();
  const { attempt } = await untilState(daemon, run, "TERMINATED");
  const stored = (await steps(daemon, run)).filter((step) => step.attempt === attempt);
  assert.deepEqual(
    stored.map((step) => step.step_index),
    Array.from({ length: worker.total }, (_, i) => i),
  );
});

Deno.test("daemon with few descriptors from its start: runs wait for one another, none fails", async () => {
  await using daemon = await TestDaemon.start({
    program: ["/bin/sh", "-c", 'ulimit -n 64; exec "$@"', "sh", ...PROGRAM],
  });
  const workers = Array.from({ length: 6 }, () => new SteppedWorker(daemon.stateDir, [30]));
  const runs: string[] = [];
  for (const worker of workers) runs.push(await submit(daemon, worker.config()));
  for (const [i, worker] of workers.entries()) await worker.assertWhole(daemon, runs[i]!);
  const db = new DatabaseSync(daemon.layout.registryDb, { readOnly: true });
  assert.equal(
    db.prepare("SELECT count(*) AS n FROM transitions WHERE to_state = 'FAULTED'").get()!.n,
    0,
  );
  db.close();
});
