/** A copy-on-write file system: its databases without mapped files, read beside their writer; its quota is seen. */
import assert from "node:assert/strict";
import { until } from "../../harness/wait.ts";
import { examineFileSystem } from "../../../src/state/doctor/doctor.ts";
import { freeSpaceOf } from "../../../src/os/host/free_space.ts";
import { readDatabase } from "../../../src/os/database/read_database.ts";
import { fileSystemOf } from "../../../src/os/host/file_system.ts";

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
  assert.deepEqual(fileSystemOf(disk.home), { kind: "copy_on_write", name: "btrfs" });
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
