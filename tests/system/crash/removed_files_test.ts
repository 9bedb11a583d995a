/**
 * Somebody removes or renames files of a living state directory, and a proxy is killed: runs end
 * with all their records.
 */
import assert from "node:assert/strict";
import { Layout, RunFiles } from "../../../src/base/layout.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { infoIfThere } from "../../../src/os/files/files.ts";
import { isAlive, type ProcessRef, processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";
import { SteppedWorker } from "../machine/workers.ts";

async function killProxy(daemon: TestDaemon, run: string): Promise<void> {
  const proxy = processRef(Number((await getRun(daemon, run)).proxyPid))!;
  signalProcess(proxy, "SIGKILL");
  await until(() => !isAlive(proxy), { what: "the proxy to be dead" });
}

const filesOf = (daemon: TestDaemon, run: string) =>
  new RunFiles(daemon.layout.runDir("custom_scripts", run), "");

testWithDaemon("files are removed below a living daemon", { args: ["--grace", "0.5"] }, [
  [
    "its lock, socket and daemon.json, and a proxy is killed: all three are there again, and the run is whole",
    async (daemon) => {
      const { lockFile, daemonJson, trainer } = daemon.layout;
      const worker = new SteppedWorker(daemon.stateDir, [60, 140]);
      const run = await submit(daemon, worker.config());
      await untilSteps(daemon, run, 60);
      const proxy = processRef(Number((await getRun(daemon, run)).proxyPid))!;
      const removed = [lockFile, daemonJson, `${trainer}/daemon.sock`];
      for (const path of removed) Deno.removeSync(path);
      signalProcess(proxy, "SIGKILL");
      worker.open();
      await until(() => removed.every((path) => infoIfThere(path) !== undefined), {
        what: "the files to be there again",
      });
      await worker.assertWhole(daemon, run);
      const second = new Deno.Command(PROGRAM[0]!, {
        args: [
          ...PROGRAM.slice(1),
          "daemon",
          "--state-dir",
          daemon.stateDir,
          "--gpus",
          "0",
          "--listen",
          "none",
          "--http",
          "none",
        ],
        stdin: "null",
      }).outputSync();
      assert.match(new TextDecoder().decode(second.stderr), /a daemon \(pid \d+\) already uses/);
    },
  ],

  [
    "the journal is renamed (log rotation) and its proxy killed: the next one reads on under the new name",
    async (daemon) => {
      for (const stored of [60, 0]) {
        const worker = new SteppedWorker(daemon.stateDir, [60, 140]);
        const run = await submit(daemon, worker.config());
        await untilSteps(daemon, run, 60);
        await killProxy(daemon, run);
        const journal = filesOf(daemon, run).stdout(1);
        Deno.renameSync(journal, `${journal}.1`);
        // What a rotation with "create" puts in its place.
        if (stored === 0) Deno.writeTextFileSync(journal, "");
        worker.open();
        await worker.assertWhole(daemon, run);
      }
    },
  ],

  [
    "what a killed wrapper has left half written is removed when the run has ended",
    async (daemon) => {
      const run = await submit(
        daemon,
        configOf({ command: ["/bin/sh", "-c", `echo '{"event_type":"step"}'; exec sleep 600`] }),
      );
      await untilSteps(daemon, run, 1);
      const files = filesOf(daemon, run);
      const left = [
        `${files.exitFile(1)}.tmp`,
        `${files.exitFile(1)}.said.tmp`,
        `${files.stdout(1)}.zst.thin.tmp`,
      ];
      Deno.writeTextFileSync(left[2]!, "");
      assert(left.every((path) => infoIfThere(path)?.isFile), "they are there while it runs");
      const { workerPid } = await getRun(daemon, run);
      Deno.kill(-Number(workerPid), "SIGKILL");
      await untilState(daemon, run, "FAULTED");
      await until(() => left.every((path) => infoIfThere(path) === undefined), {
        what: "them to be removed",
      });
    },
  ],

  [
    "a run whose journal has more than is stored: the next daemon stores it by itself",
    async (daemon) => {
      const worker = new SteppedWorker(daemon.stateDir, [30]);
      const run = await submit(daemon, worker.config());
      await worker.assertWhole(daemon, run);
      const journal = filesOf(daemon, run).stdout(1);
      Deno.chmodSync(journal, 0o600);
      // As a process that had left the group prints it after the end was reported.
      Deno.writeTextFileSync(journal, '{"event_type":"step","step_index":30}\n', { append: true });
      await daemon.stop();
      await daemon.restart();
      await until(async () => (await steps(daemon, run)).length === 31, {
        what: "the rest of the journal",
      });
    },
  ],
]);

Deno.test("a daemon whose state directory was removed while it started leaves the directory's next daemon and its runs alone", async () => {
  const place = Deno.makeTempDirSync({ prefix: "mosaic-crash-" });
  const stateDir = `${place}/state`;
  try {
    // The GPUs are asked for after the lock was taken.
    Deno.writeTextFileSync(
      `${place}/nvidia-smi`,
      `#!/bin/sh\n: >${place}/asked\nwhile [ ! -e ${place}/go ]; do sleep 0.05; done\n`,
    );
    Deno.chmodSync(`${place}/nvidia-smi`, 0o755);
    const env = { PATH: `${place}:${Deno.env.get("PATH")}` };
    const common = ["daemon", "--state-dir", stateDir, "--listen", "none", "--http", "none"];
    const late = new Deno.Command(PROGRAM[0]!, {
      args: [...PROGRAM.slice(1), ...common],
      env,
      stdin: "null",
      stderr: "piped",
    })
      .spawn();
    const opened = [`${place}/asked`, new Layout(stateDir).telemetryReserve];
    await until(() => opened.every((path) => infoIfThere(path) !== undefined), {
      what: "the first daemon to start",
    });
    Deno.removeSync(stateDir, { recursive: true });
    Deno.mkdirSync(stateDir, { mode: 0o700 });
    await using next = await TestDaemon.start({ stateDir });
    const run = await submit(
      next,
      configOf({ command: ["/bin/sh", "-c", `echo '{"event_type":"step"}'; exec sleep 600`] }),
    );
    await untilSteps(next, run, 1);
    const worker: ProcessRef = processRef(Number((await getRun(next, run)).workerPid))!;
    Deno.writeTextFileSync(`${place}/go`, "");
    const { code, stderr } = await late.output();
    assert.match(
      new TextDecoder().decode(stderr),
      /was removed or replaced while the daemon started/,
    );
    assert.notEqual(code, 0);
    assert(isAlive(worker), "the run of the next daemon lives");
    const { runs } = await next.client.unary(Mosaic.method.listRuns, { limit: 10 });
    assert.deepEqual(runs.map(({ state }) => state), ["EXECUTING"]);
    // And one that has started before: it stops, without touching anything.
    Deno.renameSync(stateDir, `${stateDir}.moved`);
    Deno.mkdirSync(stateDir, { mode: 0o700 });
    await until(() => next.died !== undefined, {
      what: "the daemon without its directory to stop",
    });
    assert(isAlive(worker), "its runs go on");
    Deno.removeSync(stateDir, { recursive: true });
    Deno.renameSync(`${stateDir}.moved`, stateDir);
    assert(processesOf(stateDir).length > 0);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
});
