/** `mosaic backup` of a living state directory, and what a daemon makes of the copy. */
import { strict as assert } from "node:assert";
import { runCli } from "../../../src/cli/cli.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { Backup } from "../../../src/registry/contract.ts";
import { fakeWorld } from "../../cli/fakes.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { DatabaseSync } from "node:sqlite";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { ensureTokens } from "../../../src/wire/tokens.ts";
import { workerToken } from "../../../src/base/session_tokens.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";

async function mosaic(stateDir: string, ...args: string[]) {
  const world = fakeWorld({}, {
    env: (name) => name === "MOSAIC_STATE_DIR" ? stateDir : undefined,
  });
  const code = await runCli(args, world);
  return { code, out: world.stdout(), err: world.stderr() };
}

async function backup(stateDir: string, to: string) {
  const { code, out, err } = await mosaic(stateDir, "backup", to, "-o", "json");
  assert.equal(code, 0, err);
  return Backup.parse(JSON.parse(out));
}

Deno.test("backup: a daemon on the copy has every run, and finishes live ones from their logs", async () => {
  await using daemon = await TestDaemon.start();
  const to = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  try {
    const ended = await submit(
      daemon,
      configOf({ name: "ended", command: countingWorker({ steps: 300 }) }),
    );
    await untilState(daemon, ended, "TERMINATED");
    const { directory } = await getRun(daemon, ended);
    Deno.mkdirSync(`${directory}/checkpoints`, { recursive: true });
    Deno.writeTextFileSync(`${directory}/checkpoints/step_300.pt`, "weights");
    Deno.symlinkSync("step_300.pt", `${directory}/checkpoints/newest`);
    const gone = await submit(
      daemon,
      configOf({ name: "gone", command: countingWorker({ steps: 1 }) }),
    );
    await untilState(daemon, gone, "TERMINATED");
    const live = await submit(
      daemon,
      configOf({ name: "live", command: countingWorker({ steps: 100_000, everySeconds: 0.01 }) }),
    );
    await untilSteps(daemon, live, 20, true);

    const first = await backup(daemon.stateDir, to);
    assert.deepEqual([first.runs, first.live_runs, first.left_out], [3, 1, []]);
    assert.notEqual(first.finished_at, null);
    const { out: deleted, code } = await mosaic(
      daemon.stateDir,
      "doctor",
      "--state-dir",
      to,
      "-o",
      "json",
    );
    assert.ok(code <= 1, deleted);

    // Renewed: what has not changed is not copied again, what was deleted goes.
    await untilSteps(daemon, live, 60, true);
    await daemon.client.unary(Mosaic.method.deleteRun, {
      run: gone,
      forever: true,
    });
    const second = await backup(daemon.stateDir, to);
    assert.equal(second.runs, 2);
    assert.ok(second.copied_files < second.files, JSON.stringify(second));
    assert.throws(
      () => Deno.statSync(`${to}/trainer/custom_scripts/${gone}`),
      Deno.errors.NotFound,
    );
    assert.equal(
      Deno.readLinkSync(`${to}/trainer/custom_scripts/${ended}/checkpoints/newest`),
      "step_300.pt",
    );

    await using copy = await TestDaemon.start({ stateDir: to });
    assert.match((await mosaic(daemon.stateDir, "backup", to)).err, /is in use: by a daemon/);
    assert.deepEqual(await steps(copy, ended), await steps(daemon, ended));
    const finished = await untilState(copy, live, "FAULTED");
    assert.equal(finished.reason, "worker_lost");
    const copied = await steps(copy, live);
    assert.ok(copied.length >= 60);
    assert.deepEqual(copied.map(({ step_index }) => step_index), copied.map((_, i) => i));
    // The original's worker is nobody else's.
    await untilSteps(daemon, live, copied.length + 20, true);
    assert.equal((await getRun(daemon, live)).state, "EXECUTING");
    // These lines name no time: what is read from the log anew has that of its arrival.
    const untimed = (rows: object[]) => rows.map((row) => ({ ...row, timestamp: "", ts_ns: "" }));
    assert.deepEqual(untimed((await steps(daemon, live)).slice(0, copied.length)), untimed(copied));
  } finally {
    Deno.removeSync(to, { recursive: true });
  }
});

Deno.test("backup: tokens and keys are not in it unless asked for, and a daemon on it makes new ones", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const to = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  Deno.chmodSync(to, 0o755);
  try {
    const run = await submit(
      daemon,
      configOf({ command: countingWorker({ steps: 100_000, everySeconds: 0.01 }) }),
    );
    await untilSteps(daemon, run, 5, true);
    const { admin, read } = ensureTokens(daemon.layout.tokensFile);
    using registry = new DatabaseSync(daemon.layout.registryDb, { readOnly: true });
    const session = String(
      registry.prepare("SELECT session_token FROM runs").get()!["session_token"],
    );
    const key = Deno.readTextFileSync(daemon.layout.webhookSecret).trim();
    const secrets = [admin, read, session, workerToken(session), key];
    assert.ok(secrets.every((secret) => secret.length > 20));
    const holding = () =>
      secrets.filter((secret) => [...filesBelow(to)].some((text) => text.includes(secret)));

    assert.equal((await backup(daemon.stateDir, to)).secrets, false);
    assert.deepEqual(holding(), []);
    assert.equal(Deno.statSync(to).mode! & 0o777, 0o700);
    const { code, err } = await mosaic(daemon.stateDir, "backup", to, "--secrets");
    assert.equal(code, 0, err);
    assert.deepEqual(holding(), secrets);
    assert.equal(Deno.statSync(`${to}/trainer/tokens.json`).mode! & 0o777, 0o600);
    // The next one without takes them away again.
    assert.equal((await backup(daemon.stateDir, to)).secrets, false);
    assert.deepEqual(holding(), []);
    await using copy = await TestDaemon.start({ stateDir: to, args: ["--auth", "token"] });
    await untilState(copy, run, "FAULTED");
    assert.notEqual(ensureTokens(copy.layout.tokensFile).admin, admin);
  } finally {
    Deno.removeSync(to, { recursive: true });
  }
});

/** The bytes of each file, as Latin-1. */
function* filesBelow(directory: string): Generator<string> {
  for (const { name, isDirectory, isFile } of Deno.readDirSync(directory)) {
    if (isDirectory) yield* filesBelow(`${directory}/${name}`);
    if (isFile) yield new TextDecoder("latin1").decode(Deno.readFileSync(`${directory}/${name}`));
  }
}

Deno.test("backup: one that is killed while it copies a database leaves the earlier one, and the next one is whole", async () => {
  await using daemon = await TestDaemon.start();
  const to = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  const mark = () =>
    JSON.parse(Deno.readTextFileSync(`${to}/backup.json`)) as { finished_at: string | null };
  const copied = `${to}/telemetry/mosaic.sqlite`;
  try {
    const ended = await submit(daemon, configOf({ command: countingWorker({ steps: 300 }) }));
    await untilState(daemon, ended, "TERMINATED");
    const rows = await steps(daemon, ended);
    await backup(daemon.stateDir, to);
    const later = await submit(daemon, configOf({ command: countingWorker({ steps: 20 }) }));
    await untilState(daemon, later, "TERMINATED");
    // Large enough that nobody copies it in a moment.
    const db = new DatabaseSync(daemon.layout.telemetryDb, { timeout: 10_000 });
    db.exec(`CREATE TABLE ballast (bytes BLOB);
      WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 128)
      INSERT INTO ballast SELECT randomblob(1 << 20) FROM i;`);
    db.close();

    const before = Deno.statSync(copied);
    const args = [...PROGRAM.slice(1), "backup", to, "--state-dir", daemon.stateDir];
    const child = new Deno.Command(PROGRAM[0]!, {
      args,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    const begun = (async () => {
      for await (const { paths } of Deno.watchFs(to)) {
        if (paths.some((path) => path === `${copied}.new`)) return;
      }
    })();
    await Promise.race([
      begun,
      child.status.then(() => Promise.reject(new Error("it ended before it was killed"))),
    ]);
    child.kill("SIGKILL");
    await child.status;
    assert.equal(mark().finished_at, null);
    const { size, mtime } = Deno.statSync(copied);
    assert.deepEqual([size, mtime], [before.size, before.mtime]);

    // A daemon on what there is has the runs of the earlier backup.
    const tried = Deno.makeTempDirSync({ prefix: "mosaic-restored-" });
    await new Deno.Command("cp", { args: ["-a", `${to}/.`, tried] }).output();
    {
      await using copy = await TestDaemon.start({ stateDir: tried });
      assert.deepEqual(await steps(copy, ended), rows);
      await assert.rejects(getRun(copy, later));
    }
    Deno.removeSync(tried, { recursive: true });

    const whole = await backup(daemon.stateDir, to);
    assert.deepEqual([whole.runs, whole.left_out, mark().finished_at], [2, [], whole.finished_at]);
    assert.throws(() => Deno.statSync(`${copied}.new`), Deno.errors.NotFound);
    await using copy = await TestDaemon.start({ stateDir: to });
    assert.deepEqual([await steps(copy, ended), (await steps(copy, later)).length], [rows, 20]);
  } finally {
    Deno.removeSync(to, { recursive: true });
  }
});

Deno.test("backup: a directory with anything else in it stays as it is, and mistakes are named", async () => {
  const other = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  try {
    Deno.writeTextFileSync(`${other}/letter.txt`, "dear");
    Deno.mkdirSync(`${other}/state/trainer`, { recursive: true });
    assert.match(
      (await mosaic(`${other}/state`, "backup", other)).err,
      /no state directory .*registry\.db/,
    );
    Deno.writeTextFileSync(
      `${other}/state/trainer/registry.db`,
      "no database, but long enough to be looked at as one".repeat(20),
    );
    const within = await mosaic(`${other}/state`, "backup", `${other}/state/b`);
    assert.deepEqual([within.code, /within each other/.test(within.err)], [2, true], within.err);
    const damaged = await mosaic(`${other}/state`, "backup", `${other}/b`);
    assert.match(damaged.err, /registry\.db is damaged: .*not a database/);
    const filled = Deno.makeTempDirSync({ dir: other });
    Deno.writeTextFileSync(`${filled}/letter.txt`, "dear");
    const refused = await mosaic(`${other}/state`, "backup", filled);
    assert.deepEqual(
      [refused.code, /is not empty, and no backup/.test(refused.err)],
      [6, true],
      refused.err,
    );
    assert.deepEqual([...Deno.readDirSync(filled)].map(({ name }) => name), ["letter.txt"]);
  } finally {
    Deno.removeSync(other, { recursive: true });
  }
});
