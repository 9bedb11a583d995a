/**
 * Pids and files that mean somebody else by now: nobody is signalled, nothing is believed, for a
 * number alone.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { signalGroup, signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { mosaic } from "./cli.ts";
import { SteppedWorker } from "./workers.ts";

/** Somebody's process, which leads a group of its own. */
class Stranger implements AsyncDisposable {
  readonly #child = new Deno.Command("sleep", { args: ["600"], stdin: "null", detached: true })
    .spawn();
  readonly pid = this.#child.pid;
  readonly #ref = processRef(this.pid)!;

  assertUntouched(): void {
    assert(isAlive(this.#ref), "somebody else's process was ended");
  }
  async [Symbol.asyncDispose](): Promise<void> {
    signalProcess(this.#ref, "SIGKILL");
    await this.#child.status;
  }
}

Deno.test("pid reuse: a daemon's files that name another process by now harm nobody, and the directory is free", async () => {
  await using stranger = await Promise.resolve(new Stranger());
  await using daemon = await TestDaemon.start({ args: ["--replace"] });
  const { layout } = daemon;
  const worker = new SteppedWorker(daemon.stateDir, [10]);
  await worker.assertWhole(daemon, await submit(daemon, worker.config()));
  await daemon.kill9();
  Deno.writeTextFileSync(layout.pidFile, `${stranger.pid}\n`);
  Deno.writeTextFileSync(
    layout.lockFile,
    JSON.stringify({ pid: stranger.pid, identity: "another/1" }),
  );
  const file = JSON.parse(Deno.readTextFileSync(layout.daemonJson));
  Deno.writeTextFileSync(layout.daemonJson, JSON.stringify({ ...file, pid: stranger.pid }));

  const asked = await mosaic(["list", "--state-dir", daemon.stateDir]);
  assert.equal(asked.code, 3, asked.out + asked.err);
  assert.ok(asked.err.includes(`no daemon answers at unix:${file.socket}`), asked.err);
  await daemon.restart();
  const again = new SteppedWorker(daemon.stateDir, [10]);
  await again.assertWhole(daemon, await submit(daemon, again.config()));
  stranger.assertUntouched();
});

Deno.test("pid reuse: neither the worker's nor the proxy's number is enough to wait for, signal or end anybody", async () => {
  await using stranger = await Promise.resolve(new Stranger());
  await using daemon = await TestDaemon.start({ args: ["--grace", "1"] });
  const command = [
    "/bin/sh",
    "-c",
    'echo "{\\"event_type\\":\\"step\\",\\"step_index\\":0}"; while :; do sleep 0.1; done',
  ];
  const runs = [
    await submit(daemon, configOf({ command })),
    await submit(daemon, configOf({ command })),
  ];
  for (const run of runs) {
    await untilSteps(daemon, run, 1);
  }
  const details = await Promise.all(runs.map((run) => getRun(daemon, run)));
  await daemon.kill9();
  for (const { proxyPid, workerPid } of details) {
    const [proxy, worker] = [processRef(Number(proxyPid))!, processRef(Number(workerPid))!];
    signalProcess(proxy, "SIGKILL");
    signalGroup(worker, "SIGKILL");
    await until(() => !isAlive(worker) && !isAlive(proxy), { what: "both to be gone" });
  }
  // As after a restart of the host: the numbers belong to somebody else.
  const db = new DatabaseSync(daemon.layout.registryDb);
  const reused = (old: unknown) =>
    JSON.stringify({ ...JSON.parse(String(old)), pid: stranger.pid });
  for (
    const { run_id, proxy, worker } of db.prepare("SELECT run_id, proxy, worker FROM runs").all()
  ) {
    db.prepare("UPDATE runs SET proxy = ?, worker = ? WHERE run_id = ?").run(
      reused(proxy),
      reused(worker),
      run_id!,
    );
    const path = `${daemon.layout.runDir("custom_scripts", String(run_id))}/.mosaic/worker-1.json`;
    Deno.writeTextFileSync(path, reused(Deno.readTextFileSync(path)));
  }
  // One is to be cancelled besides: also then nobody else is signalled.
  db.prepare(
    "UPDATE runs SET cancel_requested_at = 1, cancel_reason = 'user_cancel' WHERE run_id = ?",
  ).run(runs[1]!);
  db.close();
  await daemon.restart();
  assert.equal((await untilState(daemon, runs[0]!, "FAULTED")).reason, "worker_lost");
  await untilState(daemon, runs[1]!, "CANCELLED");
  stranger.assertUntouched();
  for (const run of runs) assert.equal((await getRun(daemon, run)).telemetry?.steps, 1n);
});
