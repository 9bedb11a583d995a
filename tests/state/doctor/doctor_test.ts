import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { runCli } from "../../../src/cli/cli.ts";
import { realContext } from "../../../src/cli/real_context.ts";
import { examine, repair } from "../../../src/state/doctor/doctor.ts";
import { freeListDamage } from "../../../src/state/doctor/free_list.ts";
import { Layout } from "../../../src/base/layout.ts";
import { tryLock } from "../../../src/os/files/files.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { migrate } from "../../../src/telemetry/tables/tables.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { diskTest } from "../../system/machine/small_disk.ts";
import { newRun, runId } from "../../registry/fixture.ts";

/** A state directory as a daemon that was stopped in good order leaves it: one ended run. */
async function withState(work: (layout: Layout) => void | Promise<void>): Promise<void> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-doctor-" });
  const layout = new Layout(stateDir);
  try {
    for (const directory of layout.directories()) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    }
    inRegistry(layout, (registry) => {
      registry.gpus.set([0, 1]);
      registry.insert(newRun(1));
      registry.apply(runId(1), { type: "spawned" });
      registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    });
    write(layout.telemetryDb, "");
    const telemetry = new DatabaseSync(layout.telemetryDb);
    migrate(telemetry, layout.telemetryDb);
    telemetry.close();
    write(`${layout.runDir("runs", runId(1))}/logs/worker.stderr.log`, "out");
    write(layout.configFile(runId(1)), "{}");
    write(layout.workerConfigFile(runId(1), "w"), "{}");
    write(layout.lockFile, "");
    await work(layout);
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
}

function inRegistry(layout: Layout, work: (registry: Registry) => void): void {
  const registry = Registry.open(layout.registryDb);
  try {
    work(registry);
  } finally {
    registry.close();
  }
}

function inDatabase<T>(path: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

function write(path: string, text: string): void {
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  Deno.writeTextFileSync(path, text, { mode: 0o600 });
}

function found(layout: Layout): string[] {
  return examine(layout.stateDir).map(({ check, severity, path }) =>
    `${severity} ${check} ${path.slice(layout.stateDir.length + 1)}`
  );
}

Deno.test("doctor: a healthy state directory has no findings, and there is nothing to repair", async () => {
  await withState((layout) => {
    assert.deepEqual(examine(layout.stateDir), []);
    assert.deepEqual(repair(layout.stateDir), { repaired: [], remaining: [] });
  });
});

Deno.test("doctor: a directory that no daemon has used is healthy; none at all is not found", () => {
  const stateDir = Deno.makeTempDirSync();
  try {
    assert.deepEqual(examine(stateDir), []);
  } finally {
    Deno.removeSync(stateDir);
  }
  assert.throws(() => examine(stateDir), { code: "not_found" });
});

Deno.test("doctor: a GPU slot held by an ended run is found and given back; one held by a live run is not touched", async () => {
  await withState((layout) => {
    inRegistry(layout, (registry) => {
      registry.insert(newRun(2));
      registry.gpus.claim(runId(2), [1]);
    });
    inDatabase(
      layout.registryDb,
      (db) => db.prepare("UPDATE gpu_slots SET run_id = ? WHERE slot = 0").run(runId(1)),
    );
    assert.deepEqual(found(layout), ["error gpu_slots trainer/registry.db"]);
    const { repaired, remaining } = repair(layout.stateDir);
    assert.deepEqual(repaired.map(({ done }) => done), [true]);
    assert.deepEqual(remaining, []);
    inRegistry(layout, (registry) => {
      assert.deepEqual(registry.gpus.slots(), [{ slot: 0, runId: null, shares: [] }, {
        slot: 1,
        runId: runId(2),
        shares: [],
      }]);
    });
  });
});

Deno.test("doctor: files that belong to no run are moved to lost+found, never deleted", async () => {
  await withState((layout) => {
    write(`${layout.runDir("evals", runId(7))}/checkpoints/a`, "precious");
    write(layout.configFile(runId(7)), "{}");
    write(layout.workerConfigFile(runId(7), "w-1"), "{}");
    assert.deepEqual(found(layout).sort(), [
      `warning orphan_config trainer/configs/config-${runId(7)}.json`,
      `warning orphan_config trainer/configs/worker-${runId(7)}-w-1.json`,
      `warning orphan_directory trainer/evals/${runId(7)}`,
    ]);
    const { remaining } = repair(layout.stateDir);
    assert.deepEqual(remaining.map(({ check, severity }) => `${severity} ${check}`), [
      "note lost_and_found",
    ]);
    assert.equal(
      Deno.readTextFileSync(`${layout.trainer}/lost+found/evals-${runId(7)}/checkpoints/a`),
      "precious",
    );

    write(`${layout.runDir("evals", runId(7))}/checkpoints/a`, "again");
    repair(layout.stateDir);
    assert.equal(
      Deno.readTextFileSync(`${layout.trainer}/lost+found/evals-${runId(7)}.2/checkpoints/a`),
      "again",
    );
  });
});

Deno.test("doctor: a process that an ended run's worker has left behind is found", async () => {
  await withState(async (layout) => {
    const child = new Deno.Command("sleep", {
      args: ["600"],
      env: { MOSAIC_RUN_DIR: layout.runDir("runs", runId(1)), MOSAIC_ATTEMPT: "1" },
    }).spawn();
    try {
      const [left] = examine(layout.stateDir);
      assert.equal(left?.check, "processes");
      assert.match(
        left.message,
        new RegExp(`process ${child.pid}, which attempt 1 of run .* has started, is alive`),
      );
    } finally {
      child.kill("SIGKILL");
      await child.status;
    }
    assert.deepEqual(examine(layout.stateDir), []);
  });
});

Deno.test("doctor: a directory of no run in which a proxy is at work is not moved away", async () => {
  await withState((layout) => {
    const directory = layout.runDir("runs", runId(7));
    write(`${directory}/.mosaic/proxy-1.lock`, "");
    const lock = tryLock(`${directory}/.mosaic/proxy-1.lock`)!;
    try {
      const { repaired, remaining } = repair(layout.stateDir);
      assert.deepEqual(repaired, []);
      assert.match(remaining[0]!.message, /a proxy is running/);
    } finally {
      lock.close();
    }
    assert.equal(repair(layout.stateDir).repaired.length, 1);
  });
});

Deno.test("doctor: a run whose files are gone, unknown files, leftovers, a daemon's traces, open modes", async () => {
  await withState((layout) => {
    Deno.removeSync(layout.runDir("runs", runId(1)), { recursive: true });
    write(`${layout.trainer}/notes.txt`, "a person's");
    write(`${layout.baseDir("runs")}/notes`, "a person's");
    write(`${layout.configs}/config-x.json.17.ab.tmp`, "{");
    write(layout.daemonJson, "{}");
    write(layout.pidFile, "12345\n");
    Deno.chmodSync(layout.registryDb, 0o644);
    Deno.chmodSync(layout.baseDir("evals"), 0o777);
    write(layout.configFile(runId(7)), "{}");
    Deno.chmodSync(layout.configFile(runId(7)), 0o644);
    write(layout.webhookSecret, "whsec_x");
    Deno.chmodSync(layout.webhookSecret, 0o755);
    // SQLite gives the files beside a database the database's mode.
    assert.deepEqual(found(layout).filter((line) => !/-(wal|shm)$/.test(line)).sort(), [
      `note missing_directory trainer/runs/${runId(1)}`,
      "note unknown_file trainer/notes.txt",
      "note unknown_file trainer/runs/notes",
      "warning daemon_files trainer/daemon.json",
      "warning daemon_files trainer/daemon.pid",
      `warning modes trainer/configs/config-${runId(7)}.json`,
      "warning modes trainer/evals",
      "warning modes trainer/registry.db",
      "warning modes trainer/webhook.secret",
      `warning orphan_config trainer/configs/config-${runId(7)}.json`,
      "warning temporary trainer/configs/config-x.json.17.ab.tmp",
    ]);
    const { repaired, remaining } = repair(layout.stateDir);
    assert.deepEqual(repaired.filter(({ done }) => !done), []);
    assert.ok(remaining.every(({ severity }) => severity === "note"));
    assert.equal(remaining.length, 4);
    assert.equal(
      Deno.statSync(`${layout.trainer}/lost+found/configs-config-${runId(7)}.json`).mode! & 0o777,
      0o600,
    );
    assert.equal(Deno.statSync(layout.webhookSecret).mode! & 0o777, 0o600);
    assert.equal(Deno.statSync(layout.registryDb).mode! & 0o777, 0o600);
    assert.equal(Deno.readTextFileSync(`${layout.trainer}/notes.txt`), "a person's");
  });
});

/** A daemon of root whose workers are root's, too, is noted. */
const notOnlyRoot = ({ check }: { check: string }) => check !== "worker_user";

Deno.test("doctor: everything that a daemon writes is known", async () => {
  await using daemon = await TestDaemon.start({
    args: ["--auth", "token", "--webhook", "http://127.0.0.1:9/"],
  });
  const strange = () =>
    examine(daemon.stateDir).filter(({ path }) => !path.endsWith("/test-output.txt"));
  assert.equal(strange().some((finding) => !notOnlyRoot(finding)), Deno.uid() === 0);
  assert.deepEqual(strange().filter(notOnlyRoot), []);
  await daemon.stop();
  assert.deepEqual(strange(), []);
});

Deno.test("doctor: a newer schema is an error that no repair touches, and no run's files are called orphans by it", async () => {
  await withState((layout) => {
    write(`${layout.runDir("runs", runId(7))}/a`, "");
    for (const path of [layout.registryDb, layout.telemetryDb]) {
      inDatabase(path, (db) => db.exec("PRAGMA user_version = 99"));
    }
    const { repaired, remaining } = repair(layout.stateDir);
    assert.deepEqual(repaired, []);
    assert.deepEqual(remaining.map(({ check, severity }) => `${severity} ${check}`), [
      "error schema",
      "error schema",
    ]);
    assert.match(remaining[0]!.message, /version 99.*up to \d/);
  });
});

/** Overwrites pages in the middle of a database. */
function damage(path: string, fromShare: number, toShare: number): void {
  inDatabase(path, (db) => db.exec("PRAGMA wal_checkpoint(TRUNCATE)"));
  const bytes = Deno.readFileSync(path);
  const page = 4096;
  const from = Math.floor(bytes.length * fromShare / page) * page;
  bytes.fill(0x5a, from, Math.max(from + page, Math.floor(bytes.length * toShare / page) * page));
  Deno.writeFileSync(path, bytes);
}

Deno.test("doctor: of a damaged registry every row that can be read is rescued, and the damaged file is kept", async () => {
  await withState((layout) => {
    inRegistry(layout, (registry) => {
      for (let n = 2; n <= 400; n++) {
        registry.insert(newRun(n, { configJson: JSON.stringify({ filler: "x".repeat(1500) }) }));
        registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
        Deno.mkdirSync(layout.runDir("runs", runId(n)));
      }
    });
    damage(layout.registryDb, 0.5, 0.55);
    assert.ok(found(layout).includes("error database trainer/registry.db"));
    const { repaired, remaining } = repair(layout.stateDir);
    assert.match(
      repaired[0]!.outcome,
      /rows recovered: .*runs \d+ \(not all\).*damaged database is now/,
    );
    assert.ok(!remaining.some(({ severity }) => severity === "error"), JSON.stringify(remaining));
    inRegistry(layout, (registry) => {
      const runs = registry.count({});
      assert.ok(runs > 200 && runs < 400, `${runs} runs`);
      // Sequence numbers go on where they were.
      const before = registry.transitionHead();
      registry.insert(newRun(999));
      assert.ok(before >= runs && registry.transitionHead() === before + 1);
    });
    assert.ok(
      [...Deno.readDirSync(layout.trainer)].some((entry) =>
        entry.name.startsWith("registry.db.damaged-")
      ),
    );
  });
});

Deno.test("doctor: the loss of a database's first page loses no row: not of the registry, not of telemetry", async () => {
  await withState((layout) => {
    inRegistry(layout, (registry) => {
      for (let n = 2; n <= 200; n++) {
        registry.insert(newRun(n));
        registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
        Deno.mkdirSync(layout.runDir("runs", runId(n)));
      }
    });
    inDatabase(layout.telemetryDb, (db) => {
      db.exec("BEGIN; INSERT INTO telemetry_runs (run_key, run_id, steps) VALUES (1, 'R', 2000)");
      const insert = db.prepare(
        "INSERT INTO steps (run_key, seq, ts_ns, observation) VALUES (1, ?, ?, 'o')",
      );
      for (let seq = 1; seq <= 2000; seq++) {
        insert.run(seq, 1_700_000_000_000_000_001n + BigInt(seq));
      }
      db.exec("COMMIT");
    });
    const ofAll = (path: string) =>
      inDatabase(path, (db) => {
        const names = db.prepare(
          "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
        ).all();
        return names.map(({ name }) => {
          const rows = db.prepare(`SELECT * FROM "${name}"`);
          rows.setReadBigInts(true);
          return [name, rows.all()];
        });
      });
    for (const path of [layout.registryDb, layout.telemetryDb]) {
      const before = ofAll(path);
      const version = inDatabase(
        path,
        (db) => db.prepare("PRAGMA user_version").get()!.user_version,
      );
      const bytes = Deno.readFileSync(path);
      Deno.writeFileSync(path, bytes.fill(0x5a, 0, 4096));
      const { repaired, remaining } = repair(layout.stateDir);
      assert.match(repaired[0]!.outcome, /rows recovered: .*a new first page was written/);
      assert.deepEqual(remaining, []);
      assert.deepEqual(ofAll(path), before);
      assert.equal(
        inDatabase(path, (db) => db.prepare("PRAGMA user_version").get()!.user_version),
        version,
      );
    }
  });
});

Deno.test("doctor: the loss of a database's first page loses nothing that is in its log only", async () => {
  await withState((layout) => {
    const path = layout.telemetryDb;
    inDatabase(
      path,
      (db) => db.exec("INSERT INTO telemetry_runs (run_key, run_id, steps) VALUES (1, 'R', 1)"),
    );
    const db = new DatabaseSync(path);
    db.exec("PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)");
    db.exec("UPDATE telemetry_runs SET steps = 2");
    // As a daemon that is killed leaves them.
    const [bytes, log] = [Deno.readFileSync(path), Deno.readFileSync(`${path}-wal`)];
    assert.ok(log.length > 0);
    db.close();
    Deno.writeFileSync(path, bytes.fill(0x5a, 0, 4096));
    Deno.writeFileSync(`${path}-wal`, log);
    assert.match(repair(layout.stateDir).repaired[0]!.outcome, /a new first page was written/);
    assert.deepEqual({
      ...inDatabase(path, (db) => db.prepare("SELECT steps FROM telemetry_runs").get()),
    }, {
      steps: 2,
    });
  });
});

diskTest(
  "doctor: a database is not replaced where the disk is too full for what can be read of it",
  (stage) => {
    const disk = stage.disk(`${stage.stateDir}/telemetry`, "8m");
    const { layout } = stage;
    for (const directory of layout.directories()) {
      Deno.mkdirSync(directory, {
        recursive: true,
        mode: 0o700,
      });
    }
    write(layout.telemetryDb, "");
    inDatabase(layout.telemetryDb, (db) => {
      migrate(db, layout.telemetryDb);
      db.exec("BEGIN; INSERT INTO telemetry_runs (run_key, run_id, steps) VALUES (1, 'R', 2000)");
      const insert = db.prepare(
        "INSERT INTO steps (run_key, seq, ts_ns, observation) VALUES (1, ?, 1, ?)",
      );
      for (let seq = 1; seq <= 2000; seq++) insert.run(seq, "o".repeat(500));
      db.exec("COMMIT");
    });
    // Of the loss of the first page two copies are made.
    for (
      const { at, frees } of [{ at: 0.5, frees: [64, 512] }, { at: 0, frees: [64, 512, 1400] }]
    ) {
      damage(layout.telemetryDb, at, at);
      const before = Deno.readFileSync(layout.telemetryDb);
      for (const free of frees) {
        disk.fill(free << 10);
        const { repaired } = repair(stage.stateDir);
        assert.deepEqual(repaired.map(({ done }) => done), [false], `${free} KiB are free`);
        assert.match(
          repaired[0]!.outcome,
          /nothing has changed \(.*(?:full|No space left).*\): repair again with free space of twice the \d+ bytes/,
        );
        assert.deepEqual(Deno.readFileSync(layout.telemetryDb), before);
        disk.free();
      }
      assert.match(
        repair(stage.stateDir).repaired[0]!.outcome,
        /rows recovered: .*steps [12]\d{3}/,
      );
      for (const { name } of Deno.readDirSync(disk.path)) {
        if (name.includes(".damaged-")) Deno.removeSync(`${disk.path}/${name}`);
      }
    }
  },
);

Deno.test("doctor: a registry that is no database at all is put aside, and no run's files go with it", async () => {
  await withState((layout) => {
    for (const suffix of ["-wal", "-shm"]) {
      try {
        Deno.removeSync(`${layout.registryDb}${suffix}`);
      } catch {
        // Closed in good order: there is none.
      }
    }
    write(layout.registryDb, "this is no database ".repeat(500));
    const { repaired } = repair(layout.stateDir);
    assert.match(repaired[0]!.outcome, /no rows are readable/);
    assert.ok(Deno.statSync(layout.runDir("runs", runId(1))).isDirectory);
    inRegistry(layout, (registry) => assert.equal(registry.count({}), 0));
  });
});

Deno.test("doctor: telemetry of nanoseconds and views is rescued as well", async () => {
  await withState((layout) => {
    inDatabase(layout.telemetryDb, (db) => {
      db.exec("PRAGMA journal_mode = WAL; BEGIN");
      db.exec("INSERT INTO telemetry_runs (run_key, run_id, steps) VALUES (1, 'R', 2000)");
      const insert = db.prepare(
        "INSERT INTO steps (run_key, seq, ts_ns, observation) VALUES (1, ?, 1700000000000000001, ?)",
      );
      for (let seq = 1; seq <= 2000; seq++) insert.run(seq, "o".repeat(200));
      db.exec("COMMIT");
    });
    damage(layout.telemetryDb, 0.5, 0.52);
    assert.ok(found(layout).includes("error database telemetry/mosaic.sqlite"));
    const { remaining } = repair(layout.stateDir);
    assert.deepEqual(remaining, []);
    inDatabase(layout.telemetryDb, (db) => {
      const row = db.prepare(
        "SELECT count(*) AS n, max(seq) AS last, CAST(max(ts_ns) AS TEXT) AS ts FROM steps",
      )
        .get()!;
      assert.ok(Number(row.n) > 1000 && Number(row.n) < 2000, `${row.n} rows`);
      assert.equal(row.last, 2000);
      assert.equal(row.ts, "1700000000000000001");
      assert.equal(
        Number(db.prepare("SELECT count(*) AS n FROM run_steps").get()!.n),
        Number(row.n),
      );
    });
  });
});

Deno.test("doctor: a run whose state cannot be read has failed, and ended, when it is mended", async () => {
  await withState((layout) => {
    inRegistry(layout, (registry) => registry.insert(newRun(2)));
    inDatabase(layout.registryDb, (db) => {
      db.prepare("UPDATE runs SET state = 'FLYING' WHERE run_id = ?").run(runId(2));
    });
    assert.deepEqual(repair(layout.stateDir).remaining, []);
    inRegistry(layout, (registry) => {
      const { state, outcome, finishedAt, damaged } = registry.require(runId(2));
      assert.deepEqual({ state, outcome, damaged }, {
        state: "FAULTED",
        outcome: "failed",
        damaged: [],
      });
      assert.ok(finishedAt !== null);
    });
  });
});

Deno.test("doctor: while a daemon holds the lock it looks, leaves fresh files alone and refuses to repair", async () => {
  await withState(async (layout) => {
    const lock = tryLock(layout.lockFile)!;
    try {
      write(layout.pidFile, "4711\n");
      write(layout.daemonJson, "{}");
      write(`${layout.runDir("runs", runId(7))}/a`, "just being submitted");
      // The lock is one of processes: within this one it would be granted twice, so another one
      // looks.
      const command = new Deno.Command(Deno.execPath(), {
        args: [
          "run",
          "-A",
          "--no-check",
          new URL("../../../src/main.ts", import.meta.url).pathname,
          "doctor",
          "--state-dir",
          layout.stateDir,
          "-o",
          "json",
        ],
        stdout: "piped",
        stderr: "piped",
      });
      const looked = await command.output();
      assert.deepEqual(
        JSON.parse(new TextDecoder().decode(looked.stdout)).findings.filter(notOnlyRoot),
        [],
      );
      assert.equal(looked.code, 0);
      assert.throws(() => repair(layout.stateDir), (error) => {
        assert.equal((error as { code: string }).code, "failed_precondition");
        assert.match((error as Error).message, /pid 4711/);
        return true;
      });
    } finally {
      lock.close();
    }
  });
});

Deno.test("doctor: the command prints findings, what --repair would do, and exits 1 until it is mended", async () => {
  await withState(async (layout) => {
    write(layout.pidFile, "1\n");
    const run = async (...args: string[]) => {
      let out = "";
      let err = "";
      const output = (take: (text: string) => void) => ({
        write: take,
        writeBytes: (b: Uint8Array) => take(new TextDecoder().decode(b)),
        move: () => {},
      });
      const context = {
        ...realContext(),
        out: output((t) => out += t),
        err: output((t) => err += t),
      };
      const code = await runCli(["doctor", "--state-dir", layout.stateDir, ...args], context);
      return { code, out, err };
    };
    const looked = await run();
    assert.equal(looked.code, 1);
    assert.match(
      looked.out,
      /^warning .*daemon\.pid\n.*no longer runs\n.*--repair would remove it\n$/,
    );
    assert.match(looked.err, /1 warning\n$/);
    const json = JSON.parse((await run("-o", "json")).out);
    assert.deepEqual(Object.keys(json), ["state_dir", "repaired", "findings"]);
    assert.deepEqual(Object.keys(json.findings[0]), [
      "check",
      "severity",
      "path",
      "message",
      "remedy",
    ]);
    const mended = await run("--repair");
    assert.equal(mended.code, 0);
    assert.match(mended.out, /^repaired /);
    assert.match(mended.err, /no problems/);
    assert.equal((await run("-o", "xml")).code, 2);
    assert.equal((await run("--state-dir", "/nowhere/at/all")).code, 4);
  });
});

Deno.test("doctor: what a daemon commits while the list of free pages is read is not taken for damage", () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-doctor-" });
  const path = `${directory}/a.sqlite`;
  using writer = new DatabaseSync(path);
  try {
    writer.exec("PRAGMA auto_vacuum = 2; PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    const fill = writer.prepare("INSERT INTO t VALUES (zeroblob(100000))");
    for (let i = 0; i < 10; i++) fill.run();
    writer.exec("DELETE FROM t WHERE rowid > 5");
    // Others commit when the doctor has just begun to read: pages that are in use for it become
    // free, and further ones are added.
    for (const copied of [false, true]) {
      if (copied) writer.exec("PRAGMA wal_checkpoint(PASSIVE)");
      using db = new DatabaseSync(path, { readOnly: true });
      const prepare = db.prepare.bind(db);
      db.prepare = (sql) => {
        if (sql === "PRAGMA page_size") {
          for (let i = 0; i < 20; i++) fill.run();
          writer.exec("DELETE FROM t WHERE rowid % 2 = 0");
        }
        return prepare(sql);
      };
      assert.equal(freeListDamage(path, db, true), undefined);
    }
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
