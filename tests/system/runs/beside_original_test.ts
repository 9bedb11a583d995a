/** A state directory that the original's GUI uses, too. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState, untilSteps } from "../../harness/runs.ts";

Deno.test("beside the original: its telemetry.sqlite is left alone", async () => {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-original-" });
  const theirs = `${stateDir}/telemetry/telemetry.sqlite`;
  const ours = `${stateDir}/telemetry/mosaic.sqlite`;
  try {
    Deno.mkdirSync(`${stateDir}/telemetry`, { recursive: true });
    const original = new DatabaseSync(theirs);
    original.exec(`PRAGMA journal_mode = WAL;
      CREATE TABLE steps (episode_id TEXT, step_index INTEGER, reward REAL, agent_id TEXT, run_id TEXT);
      CREATE TABLE episodes (episode_id TEXT PRIMARY KEY, total_reward REAL);
      INSERT INTO steps VALUES ('R-ep000001', 1, 1.0, 'agent_1', 'R');`);
    // The GUI is running: its connection stays open.
    for (const start of [1, 2]) {
      await using daemon = await TestDaemon.start({ stateDir });
      assert.equal(daemon.layout.telemetryDb, ours, `start ${start}`);
      const run = await submit(daemon, configOf({ command: countingWorker({ steps: 3 }) }));
      await untilSteps(daemon, run, 3);
      await untilState(daemon, run, "TERMINATED");
      await daemon.stop();
    }
    original.exec("INSERT INTO steps VALUES ('R-ep000001', 2, 1.0, 'agent_1', 'R')");
    assert.equal(original.prepare("SELECT count(*) AS n FROM steps").get()!.n, 2);
    assert.equal(original.prepare("PRAGMA user_version").get()!.user_version, 0);
    original.close();
    const own = new DatabaseSync(ours, { readOnly: true });
    assert.equal(own.prepare("SELECT count(*) AS n FROM run_steps").get()!.n, 6);
    own.close();
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
});

Deno.test("before the original: mosaic leaves it the name telemetry.sqlite, also in a directory of an earlier version", async () => {
  await using daemon = await TestDaemon.start();
  const { olderTelemetryDb: theirs, newerTelemetryDb: ours } = daemon.layout;
  const run = await submit(daemon, configOf({ command: countingWorker({ steps: 3 }) }));
  await untilSteps(daemon, run, 3);
  await untilState(daemon, run, "TERMINATED");
  assert.throws(() => Deno.statSync(theirs), Deno.errors.NotFound);
  // An earlier version was killed: part of what it committed is in the write-ahead log only.
  await daemon.kill9();
  for (const end of ["-shm", "-wal", ""]) Deno.renameSync(`${ours}${end}`, `${theirs}${end}`);
  assert.ok(Deno.statSync(`${theirs}-wal`).size > 0);
  assert.equal(daemon.layout.telemetryDb, theirs);
  // Somebody reads it meanwhile: it is used under its old name.
  const reader = new DatabaseSync(theirs, { readOnly: true });
  reader.exec("BEGIN; SELECT count(*) FROM telemetry_runs");
  await daemon.restart();
  assert.equal(daemon.layout.telemetryDb, theirs);
  await untilSteps(daemon, run, 3);
  reader.close();
  await daemon.restart();
  assert.equal(daemon.layout.telemetryDb, ours);
  await untilSteps(daemon, run, 3);
  // The original makes its tables in a file of its own.
  using original = new DatabaseSync(theirs);
  assert.deepEqual(original.prepare("SELECT name FROM sqlite_master").all(), []);
});

Deno.test("beside the original: directories in which its workers write are there when a worker starts", async () => {
  await using daemon = await TestDaemon.start();
  const script =
    `cd "$MOSAIC_RUN_DIR" && test -d "$MOSAIC_CHECKPOINT_DIR" && test -d tensorboard && test -d videos`;
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
  await untilState(daemon, run, "TERMINATED");
});
