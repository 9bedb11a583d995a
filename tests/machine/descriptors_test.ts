/** No file descriptor is left: in the daemon, in a proxy. The limit of a living process is lowered and raised again. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
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
