import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { connect } from "../../../src/wire/client/client.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { Layout } from "../../../src/base/layout.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

/** A daemon that does not come up: its exit code and what it says. */
async function failing(...args: string[]): Promise<{ code: number; said: string }> {
  const out = await new Deno.Command(PROGRAM[0]!, {
    args: [...PROGRAM.slice(1), "daemon", ...args],
    stdin: "null",
  }).output();
  return { code: out.code, said: new TextDecoder().decode(out.stderr) };
}

const FREE_PORTS = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--gpus", "0"];

Deno.test("daemon: what is in its way is one clear line and an exit code of its own", async (t) => {
  await using daemon = await TestDaemon.start();
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    await t.step("2: another daemon has the state directory", async () => {
      const { code, said } = await failing("--state-dir", daemon.stateDir, ...FREE_PORTS);
      assert.equal(code, 2);
      assert.match(said, new RegExp(`pid ${daemon.pid}\\b`));
    });
    await t.step("2: wrong options", async () => {
      for (
        const wrong of [["--gpus", "many"], ["--no-such-option"], ["--max-runs", "0"], [
          "--grace",
          "",
        ]]
      ) {
        assert.equal((await failing("--state-dir", stateDir, ...wrong)).code, 2, wrong.join(" "));
      }
    });
    await t.step("2: others could reach it", async () => {
      const { code, said } = await failing(
        "--state-dir",
        stateDir,
        "--listen",
        "0.0.0.0:0",
        "--http",
        "none",
      );
      assert.equal(code, 2);
      assert.match(said, /0\.0\.0\.0:0/);
    });
    await t.step("3: an address is taken", async () => {
      for (const taken of [["--listen", daemon.address], ["--http", daemon.http]]) {
        const { code, said } = await failing("--state-dir", stateDir, ...FREE_PORTS, ...taken);
        assert.equal(code, 3);
        assert.match(said, new RegExp(taken[1]!));
      }
    });
    await t.step("4: the state directory is none", async () => {
      Deno.writeTextFileSync(`${stateDir}/file`, "");
      const { code, said } = await failing("--state-dir", `${stateDir}/file`, ...FREE_PORTS);
      assert.equal(code, 4);
      assert.match(said, /cannot use/);
    });
    await t.step("5: a database was written by a newer mosaic", async () => {
      for (const path of [new Layout(stateDir).registryDb, new Layout(stateDir).telemetryDb]) {
        const db = new DatabaseSync(path);
        const { user_version: before } = db.prepare("PRAGMA user_version").get()!;
        db.exec("PRAGMA user_version = 9999");
        db.close();
        const { code, said } = await failing("--state-dir", stateDir, ...FREE_PORTS);
        assert.equal(code, 5);
        assert.match(said, /newer/);
        const again = new DatabaseSync(path);
        again.exec(`PRAGMA user_version = ${before}`);
        again.close();
      }
    });
  } finally {
    await Deno.remove(stateDir, { recursive: true });
  }
});

Deno.test("daemon: stopped in order it leaves its runs alive, and the one that replaces it takes them up", async () => {
  await using daemon = await TestDaemon.start({ args: ["--replace"] });
  const run = await submit(
    daemon,
    configOf({ command: countingWorker({ steps: 1_000_000, everySeconds: 0.2 }) }),
  );
  const { workerPid } = await untilState(daemon, run, "EXECUTING");

  assert.equal(await daemon.stop(), 0);
  assert.equal(readTextIfThere(daemon.layout.daemonJson), undefined);
  await daemon.restart();
  const before = Number((await getRun(daemon, run)).telemetry?.steps);
  await until(async () => Number((await getRun(daemon, run)).telemetry?.steps) > before, {
    what: "further steps",
  });
  assert.equal((await getRun(daemon, run)).workerPid, workerPid);

  // The newcomer is told to replace; the harness' daemon is the one that leaves.
  await using next = await TestDaemon.start({ args: ["--replace"], stateDir: daemon.stateDir });
  assert.notEqual(next.pid, daemon.pid);
  await until(async () => Number((await getRun(next, run)).telemetry?.steps) > before + 5, {
    what: "steps after it",
  });
  assert.equal((await getRun(next, run)).workerPid, workerPid);
  await next.client.unary(Mosaic.method.cancelRun, { run, graceSeconds: 1 });
  await untilState(next, run, "CANCELLED");
});

Deno.test("daemon: one that hangs is replaced, its run goes on", async () => {
  await using daemon = await TestDaemon.start();
  const run = await submit(
    daemon,
    configOf({ command: countingWorker({ steps: 1_000_000, everySeconds: 0.2 }) }),
  );
  const { workerPid } = await untilState(daemon, run, "EXECUTING");
  // It hears no SIGTERM.
  signalProcess(processRef(daemon.pid)!, "SIGSTOP");
  await using next = await TestDaemon.start({ args: ["--replace"], stateDir: daemon.stateDir });
  assert.equal(processRef(daemon.pid), undefined);
  const before = Number((await getRun(next, run)).telemetry?.steps);
  await until(async () => Number((await getRun(next, run)).telemetry?.steps) > before, {
    what: "further steps",
  });
  assert.equal((await getRun(next, run)).workerPid, workerPid);
  await next.client.unary(Mosaic.method.cancelRun, { run, graceSeconds: 1 });
  await untilState(next, run, "CANCELLED");
});

Deno.test("daemon: asked to shut down over the wire, it does", async () => {
  await using daemon = await TestDaemon.start();
  const client = connect({ stateDir: daemon.stateDir });
  try {
    await client.unary(Mosaic.method.shutdown, {});
  } finally {
    client.close();
  }
  await until(() => readTextIfThere(daemon.layout.pidFile) === undefined, {
    what: "the daemon to leave",
  });
});
