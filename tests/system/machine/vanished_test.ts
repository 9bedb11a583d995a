/**
 * Somebody removes or replaces a database under the running daemon: it is noticed, told, and
 * nothing is lost.
 */
import assert from "node:assert/strict";
import { repair } from "../../../src/state/doctor/doctor.ts";
import { removeIfThere } from "../../../src/os/files/files.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { PlannedDaemon } from "../../harness/planned_daemon.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { SteppedWorker } from "./workers.ts";

function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) Deno.removeSync(`${path}${suffix}`);
}

Deno.test("vanished: mosaic.sqlite is removed: nothing is stored where nobody finds it, and the logs have it all", async () => {
  await using daemon = await TestDaemon.start();
  const ended = new SteppedWorker(daemon.stateDir, [200]);
  const endedRun = await submit(daemon, ended.config());
  await ended.assertWhole(daemon, endedRun);
  const worker = new SteppedWorker(daemon.stateDir, [100, 100]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 100);
  removeDatabase(daemon.layout.telemetryDb);
  worker.open();
  await until(() => /mosaic.sqlite was removed while the daemon uses it/.test(daemon.output()), {
    what: "it to be told",
    state: () => daemon.output().slice(-3000),
  });
  assert.equal((await steps(daemon, run)).length, 100);
  await daemon.stop();
  const { repaired } = repair(daemon.stateDir);
  assert.ok(
    repaired.some(({ outcome }) => /200 steps, 0 episodes, 0 events added/.test(outcome)),
    JSON.stringify(repaired),
  );
  await daemon.restart();
  await worker.assertWhole(daemon, run);
  await ended.assertWhole(daemon, endedRun);
});

Deno.test("vanished: registry.db is removed or replaced: the daemon saves it, refuses to go on, and the next one knows all", async () => {
  // With the permissions that an executable has: they refuse some of SQLite's ways to copy a
  // database.
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const worker = new SteppedWorker(daemon.stateDir, [100, 100]);
  const run = await submit(daemon, worker.config());
  await untilSteps(daemon, run, 100);
  const { registryDb } = daemon.layout;
  removeDatabase(registryDb);
  const refused = {
    code: "unavailable",
    message: /was removed or replaced while the daemon uses it.*It is saved as/,
  };
  await assert.rejects(submit(daemon, worker.config()), refused);
  worker.open();
  await daemon.stop();
  await daemon.restart();
  await worker.assertWhole(daemon, run);

  Deno.copyFileSync(registryDb, `${registryDb}.older`);
  Deno.renameSync(`${registryDb}.older`, registryDb);
  await assert.rejects(submit(daemon, worker.config()), refused);
  const saved = [...Deno.readDirSync(daemon.layout.trainer)].find(({ name }) =>
    name.startsWith("registry.db.saved-")
  )!;
  await daemon.stop();
  for (const suffix of ["-wal", "-shm"]) removeIfThere(`${registryDb}${suffix}`);
  Deno.renameSync(`${daemon.layout.trainer}/${saved.name}`, registryDb);
  await daemon.restart();
  assert.equal((await getRun(daemon, run)).state, "TERMINATED");
  const next = new SteppedWorker(daemon.stateDir, [20]);
  await untilState(daemon, await submit(daemon, next.config()), "TERMINATED");
});
