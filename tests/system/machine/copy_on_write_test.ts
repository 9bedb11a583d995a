/**
 * A copy-on-write file system: its databases without mapped files, read beside their writer; what
 * it gives is seen in time.
 */
import assert from "node:assert/strict";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { examineFileSystem } from "../../../src/state/doctor/doctor.ts";
import { freeSpaceOf } from "../../../src/os/host/free_space.ts";
import { readDatabase } from "../../../src/os/database/read_database.ts";
import { fileSystemOf } from "../../../src/os/host/file_system.ts";

function command(...argv: string[]): boolean {
  try {
    return new Deno.Command(argv[0]!, { args: argv.slice(1), stdout: "null", stderr: "null" })
      .outputSync().success;
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
    const made = command("truncate", "-s", "500M", image) &&
      command("mkfs.btrfs", "-q", "-f", image) &&
      command("mount", "-o", "loop", image, mount) &&
      command("btrfs", "subvolume", "create", disk.home) &&
      (quota === undefined ||
        (command("btrfs", "quota", "enable", mount) &&
          command("btrfs", "qgroup", "limit", quota, disk.home)));
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

  [Symbol.dispose](): void {
    command("umount", "-l", `${this.#base}/mnt`);
    Deno.removeSync(this.#base, { recursive: true });
  }
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
  const writer = new Deno.Command(Deno.execPath(), { args: ["eval", "--no-lock", WRITE, path] })
    .spawn();
  try {
    await until(() => Deno.stat(`${path}-wal`).then(({ size }) => size > 100_000, () => false), {
      what: "the writer",
    });
    for (let i = 0, last = 0; i < 5; i++) {
      using db = readDatabase(path);
      const counts = db.prepare(
        "SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM u) AS u",
      ).get();
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
  assert.deepEqual(fileSystemOf(disk.home), { kind: "copy_on_write", name: "btrfs" });
  assert.ok(freeSpaceOf(disk.home).enough);
  disk.fill();
  const { free, enough, quota } = freeSpaceOf(disk.home);
  assert.ok(free < 1 << 20, String(free));
  assert.deepEqual({ enough, quota }, { enough: false, quota: true });
  assert.deepEqual([...Deno.readDirSync(disk.home)].map(({ name }) => name), ["filler"]);
});

/**
 * Prints 4 MB of incompressible steps a second, until the file in $1 exists; writes an error of a
 * write to $2.
 */
const WRITER = `import base64, os, sys, time
n = 0
try:
    while not os.path.exists(sys.argv[1]):
        print('{"event_type":"step","step_index":%d,"reward":1,"note":"%s"}' % (n, base64.b64encode(os.urandom(15000)).decode()))
        n += 1
        if n % 10 == 0: sys.stdout.flush(); time.sleep(0.05)
    sys.stdout.flush()
except OSError as error:
    open(sys.argv[2], "w").write(str(error)); raise`;

Deno.test("btrfs over its quota: the daemon lives, a worker is held before a write of it fails, and with room goes on", async () => {
  using disk = Btrfs.make("60M");
  if (disk === undefined) return;
  const outside = Deno.makeTempDirSync({ prefix: "mosaic-outside-" });
  try {
    Deno.mkdirSync(`${disk.home}/state`, { mode: 0o700 });
    await using daemon = await TestDaemon.start({
      stateDir: `${disk.home}/state`,
      args: ["--listen", "none", "--http", "none"],
    });
    const [stop, error] = [`${outside}/stop`, `${outside}/error`];
    const readIfThere = (path: string) => Deno.readTextFile(path).catch(() => "");
    const runId = await submit(
      daemon,
      configOf({ command: ["python3", "-c", WRITER, stop, error] }),
    );
    const log = `${(await getRun(daemon, runId)).directory}/logs/proxy.log`;
    const held = async () =>
      /worker held: it waits for free space in the quota/.test(await readIfThere(log));
    await until(async () => daemon.died !== undefined || await held(), {
      ...{ what: "the worker to be held", timeoutMs: 60_000 },
      state: async () => [daemon.died, await readIfThere(log), await readIfThere(error)],
    });
    assert.equal(daemon.died, undefined);
    // A start there.
    await daemon.restart();
    assert.equal(await readIfThere(error), "");
    const before = (await steps(daemon, runId)).length;
    assert.ok(command("btrfs", "qgroup", "limit", "400M", disk.home));
    await until(async () => (await steps(daemon, runId)).length > before + 50, {
      what: "the worker to go on",
    });
    Deno.writeTextFileSync(stop, "");
    await untilState(daemon, runId, "TERMINATED");
    const stored = await steps(daemon, runId);
    assert.deepEqual(stored.map((line) => line.step_index), stored.map((_, i) => i));
    assert.equal(await readIfThere(error), "");
  } finally {
    Deno.removeSync(outside, { recursive: true });
  }
});

Deno.test("a state directory on a network or FUSE file system is a warning, on btrfs not", () => {
  const [finding] = examineFileSystem("/state", { kind: "remote", name: "nfs" });
  assert.equal(finding!.severity, "warning");
  assert.match(finding!.message, /network or FUSE file system \(nfs\)/);
  assert.deepEqual(examineFileSystem("/state", { kind: "copy_on_write", name: "btrfs" }), []);
});
