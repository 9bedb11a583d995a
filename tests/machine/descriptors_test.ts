/** No file descriptor is left: in the daemon, in a proxy. The limit of a living process is lowered and raised again. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { connect } from "../../src/client/client.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../src/process/files.ts";
import { isAlive, processRef } from "../../src/process/identity.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
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

Deno.test("daemon without descriptors: it lives, says so, and answers on both ports when there are some again", async () => {
  await using daemon = await TestDaemon.start();
  const worker = new SteppedWorker(daemon.stateDir, [50, 50]);
  const run = await submit(daemon, worker.config());
  await until(async () => Number((await getRun(daemon, run)).telemetry?.steps) === 50, { what: "the first part" });
  const process = processRef(daemon.pid)!;
  const connections: Deno.Conn[] = [];
  limitDescriptors(daemon.pid, LOW);
  try {
    await until(() => /no file descriptor is left/.test(daemon.output()), { what: "the daemon to say so" });
    await assert.rejects(submit(daemon, new SteppedWorker(daemon.stateDir, [20]).config()), {
      code: "unavailable",
      message: /no file descriptor is left/,
    });
    // Connections that nobody can accept; a listener that has failed already refuses or resets them.
    for (const address of [daemon.address, daemon.address, daemon.http]) {
      const [hostname, port] = address.split(":");
      await Deno.connect({ hostname: hostname!, port: Number(port) }).then((c) => connections.push(c), () => {});
    }
    await until(() => /serves no longer/.test(daemon.output()), { what: "the page's listener to fail" });
    // A worker that ends meanwhile, and whose exit nobody can take.
    worker.open();
    const exit = `${daemon.layout.runDir("custom_scripts", run)}/exit.json`;
    await until(() => readTextIfThere(exit), { what: "the worker to end" });
    limitDescriptors(daemon.pid, ENOUGH);
    await worker.assertWhole(daemon, run);
    await until(() => /listening again/.test(daemon.output()), { what: "the port to be listened on again" });
  } finally {
    limitDescriptors(daemon.pid, ENOUGH);
    connections.forEach((connection) => connection.close());
  }
  assert(isAlive(process), daemon.output());
  await until(async () => {
    const fresh = connect({ target: daemon.address, deadlineMs: 2000 });
    try {
      return (await fresh.unary(Mosaic.method.getHost, {})).pid === BigInt(daemon.pid);
    } catch {
      return false;
    } finally {
      fresh.close();
    }
  }, { what: "new clients to be accepted", state: () => daemon.output().slice(-2000) });
  await until(async () => {
    const answer = await fetch(`http://${daemon.http}/healthz`, { signal: AbortSignal.timeout(2000) }).catch(() =>
      null
    );
    await answer?.body?.cancel();
    return answer?.ok;
  }, { what: "the page to be served", state: () => daemon.output().slice(-2000) });
});

Deno.test("proxy without descriptors: it lives, waits, and goes on when there are some again", async () => {
  await using daemon = await TestDaemon.start();
  const worker = new SteppedWorker(daemon.stateDir, [50, 500]);
  const run = await submit(daemon, worker.config());
  await until(async () => Number((await getRun(daemon, run)).telemetry?.steps) === 50, { what: "the first part" });
  const proxy = processRef(Number((await getRun(daemon, run)).proxyPid))!;
  limitDescriptors(proxy.pid, LOW);
  try {
    await daemon.kill9();
    worker.open();
    const log = `${daemon.layout.runDir("custom_scripts", run)}/logs/proxy.log`;
    await until(() => /no delivery just now/.test(Deno.readTextFileSync(log)), { what: "the proxy to say so" });
    await daemon.restart();
    // The proxy cannot connect; nor can it find out that its worker is gone.
    limitDescriptors(proxy.pid, ENOUGH);
    await worker.assertWhole(daemon, run);
  } finally {
    if (isAlive(proxy)) limitDescriptors(proxy.pid, ENOUGH);
  }
  assert.equal((await untilState(daemon, run, "TERMINATED")).exitCode, 0);
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
  assert.equal(db.prepare("SELECT count(*) AS n FROM transitions WHERE to_state = 'FAULTED'").get()!.n, 0);
  db.close();
});
