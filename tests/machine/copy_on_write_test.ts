/** A copy-on-write file system whose disk or quota is full: the daemon lives, the worker waits, and readers read. */
import assert from "node:assert/strict";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { getRun, steps, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { examine, examineFileSystem } from "../../src/doctor/doctor.ts";
import { freeSpaceOf } from "../../src/os/free_space.ts";
import { readDatabase } from "../../src/os/read_database.ts";
import { fileSystemOf } from "../../src/os/file_system.ts";
import { query } from "../../src/telemetry/sql.ts";

function command(...argv: string[]): boolean {
  try {
    return new Deno.Command(argv[0]!, { args: argv.slice(1), stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

class Btrfs implements Disposable {
  readonly #base = Deno.makeTempDirSync({ prefix: "mosaic-btrfs-" });
  readonly home = `${this.#base}/mnt/home`;

  /** Undefined where none can be made, which is said aloud. */
  static make(quota?: string): Btrfs | undefined {
    const disk = new Btrfs();
    const [image, mount] = [`${disk.#base}/image`, `${disk.#base}/mnt`];
    Deno.mkdirSync(mount);
    const made = command("truncate", "-s", "500M", image) && command("mkfs.btrfs", "-q", "-f", image) &&
      command("mount", "-o", "loop", image, mount) && command("btrfs", "subvolume", "create", disk.home) &&
      (quota === undefined ||
        (command("btrfs", "quota", "enable", mount) && command("btrfs", "qgroup", "limit", quota, disk.home)));
    if (made) return disk;
    disk[Symbol.dispose]();
    assert.notEqual(Deno.env.get("MOSAIC_TEST_REQUIRE"), "all", "no btrfs can be mounted");
    console.error("SKIPPED: a full btrfs: none can be made and mounted here");
    return undefined;
  }

  /** Writes until nothing more can be written. */
  fill(): void {
    command("dd", "if=/dev/urandom", `of=${this.home}/filler`, "bs=1M", "count=1000");
  }

  free(): void {
    Deno.removeSync(`${this.home}/filler`);
    command("sync", "-f", this.home);
  }

  [Symbol.dispose](): void {
    command("umount", "-l", `${this.#base}/mnt`);
    Deno.removeSync(this.#base, { recursive: true });
  }
}

/** Prints incompressible steps as fast as a slow disk, until the file in $1 exists; writes an error of a write to $2. */
const WRITER = `import base64, os, sys, time
n = 0
try:
    while not os.path.exists(sys.argv[1]):
        print('{"event_type":"step","step_index":%d,"reward":1,"note":"%s"}' % (n, base64.b64encode(os.urandom(2000)).decode()))
        n += 1
        if n % 50 == 0: sys.stdout.flush(); time.sleep(0.05)
    sys.stdout.flush()
except OSError as error:
    open(sys.argv[2], "w").write(str(error)); raise`;

const readIfThere = (path: string) => Deno.readTextFile(path).catch(() => "");

for (const full of ["quota", "disk"] as const) {
  Deno.test(`btrfs, a full ${full}: the daemon lives, the worker is held and gets no error; with room it goes on`, async () => {
    using disk = Btrfs.make(full === "quota" ? "70M" : undefined);
    if (disk === undefined) return;
    const outside = Deno.makeTempDirSync({ prefix: "mosaic-outside-" });
    try {
      assert.deepEqual(fileSystemOf(disk.home), { kind: "copy_on_write", name: "btrfs" });
      Deno.mkdirSync(`${disk.home}/state`, { mode: 0o700 });
      await using daemon = await TestDaemon.start({
        stateDir: `${disk.home}/state`,
        args: ["--listen", "none", "--http", "none"],
      });
      const [stop, error] = [`${outside}/stop`, `${outside}/error`];
      const runId = await submit(daemon, configOf({ command: ["python3", "-c", WRITER, stop, error] }));
      await until(async () => (await steps(daemon, runId)).length > 500, { what: "steps" });
      if (full === "disk") disk.fill();
      const held = `${(await getRun(daemon, runId)).directory}/logs/proxy.log`;
      await until(
        async () =>
          daemon.died !== undefined ||
          /worker held: (it waits for free space|the daemon's disk is full)/.test(await readIfThere(held)),
        {
          ...{ what: "the worker to be held", timeoutMs: 90_000 },
          state: async () => [daemon.died, await readIfThere(held)],
        },
      );
      assert.equal(daemon.died, undefined, "SIGBUS");
      if (full === "disk") disk.fill();
      // A start on the full disk.
      await daemon.restart();
      assert.equal(await readIfThere(error), "");
      if (full === "disk") disk.free();
      else assert.ok(command("btrfs", "qgroup", "limit", "400M", disk.home));
      const before = (await steps(daemon, runId)).length;
      await until(async () => (await steps(daemon, runId)).length > before + 100, { what: "the worker to go on" });
      Deno.writeTextFileSync(stop, "");
      await untilState(daemon, runId, "TERMINATED");
      const stored = await steps(daemon, runId);
      assert.deepEqual(stored.map((line) => line.step_index), stored.map((_, i) => i));
      assert.equal(await readIfThere(error), "");

      // Beside the daemon, which holds the databases locked.
      const sql = "SELECT count(*) AS n FROM run_steps";
      const [{ n }] = query(daemon.layout.telemetryDb, sql, () => {}) as [{ n: number }];
      assert.equal(n, stored.length);
      assert.deepEqual(examine(daemon.stateDir).filter(({ severity }) => severity === "error"), []);
      const left = [...Deno.readDirSync(`${daemon.stateDir}/telemetry`)].filter(({ name }) => name.includes(".read-"));
      assert.deepEqual(left, [], "no copy is left");
    } finally {
      Deno.removeSync(outside, { recursive: true });
    }
  });
}

/** Writes two tables in step, and moves its log into the database now and then. */
const WRITE = `import { DatabaseSync } from "node:sqlite";
const db = new DatabaseSync(Deno.args[0]);
db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; CREATE TABLE t (x); CREATE TABLE u (x)");
for (let i = 0; ; i++) {
  db.exec("BEGIN; INSERT INTO t VALUES (randomblob(500)); INSERT INTO u VALUES (1); COMMIT");
  if (i % 400 === 399) db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  await new Promise((resolve) => setTimeout(resolve, 1));
}`;

Deno.test("a database on a copy-on-write disk: while another process writes it, whole states of it are read", async () => {
  using disk = Btrfs.make("60M");
  if (disk === undefined) return;
  const path = `${disk.home}/a.db`;
  const writer = new Deno.Command(Deno.execPath(), { args: ["eval", "--no-lock", WRITE, path] }).spawn();
  try {
    await until(() => Deno.stat(`${path}-wal`).then(({ size }) => size > 100_000, () => false), { what: "the writer" });
    for (let i = 0, last = 0; i < 5; i++) {
      using db = readDatabase(path);
      const counts = db.prepare("SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM u) AS u").get();
      const { t, u } = counts as { t: number; u: number };
      assert.ok(t === u && t >= last, `${t} ${u} ${last}`);
      assert.equal(db.prepare("PRAGMA integrity_check").get()!.integrity_check, "ok");
      last = t;
    }
    assert.throws(() => Deno.statSync(`${path}-shm`), Deno.errors.NotFound);
  } finally {
    writer.kill("SIGKILL");
    await writer.status;
  }
});

Deno.test("free space on a copy-on-write disk is what a quota leaves, and measuring leaves nothing", () => {
  using disk = Btrfs.make("60M");
  if (disk === undefined) return;
  assert.ok(freeSpaceOf(disk.home).enough);
  disk.fill();
  const { enough, refused } = freeSpaceOf(disk.home);
  assert.deepEqual({ enough, refused }, { enough: false, refused: true });
  assert.deepEqual([...Deno.readDirSync(disk.home)].map(({ name }) => name), ["filler"]);
});

Deno.test("a state directory on a network or FUSE file system is a warning, on btrfs not", () => {
  const [finding] = examineFileSystem("/state", { kind: "remote", name: "nfs" });
  assert.equal(finding!.severity, "warning");
  assert.match(finding!.message, /network or FUSE file system \(nfs\)/);
  assert.deepEqual(examineFileSystem("/state", { kind: "copy_on_write", name: "btrfs" }), []);
});
