/**
 * A file system that the kernel has turned read-only after an error, as one on a thin volume that
 * has run out.
 */
import assert from "node:assert/strict";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

function command(...argv: string[]): string | undefined {
  try {
    const { success, stdout } = new Deno.Command(argv[0]!, { args: argv.slice(1), stderr: "null" })
      .outputSync();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  } catch {
    return undefined;
  }
}

class Ext4 implements Disposable {
  readonly base = Deno.makeTempDirSync({ prefix: "mosaic-ext4-" });
  readonly home = `${this.base}/mnt`;
  readonly #image = `${this.base}/image`;

  /** Undefined where none can be made, which is said aloud. */
  static make(): Ext4 | undefined {
    const disk = new Ext4();
    Deno.mkdirSync(disk.home);
    const isMade = command("truncate", "-s", "200M", disk.#image) !== undefined &&
      command("mkfs.ext4", "-q", disk.#image) !== undefined && disk.mount();
    if (isMade && disk.#trigger !== undefined) return disk;
    disk[Symbol.dispose]();
    assert.notEqual(Deno.env.get("MOSAIC_TEST_REQUIRE"), "all", "no ext4 can be mounted");
    console.error("SKIPPED: a file system that turns read-only: none can be made and mounted here");
    return undefined;
  }

  mount(): boolean {
    return command("mount", "-o", "loop,errors=remount-ro", this.#image, this.home) !== undefined;
  }

  /** While any process has a file of it open, it has its device, also after `umount -l`. */
  get device(): string {
    return command("losetup", "-n", "-O", "NAME", "-j", this.#image) ?? "";
  }

  get #trigger(): string | undefined {
    const path = `/sys/fs/ext4/${this.device.split("/").at(-1)}/trigger_fs_error`;
    try {
      return Deno.lstatSync(path).isFile ? path : undefined;
    } catch {
      return undefined;
    }
  }

  /** What was written before is on the disk. */
  fail(): void {
    assert.notEqual(command("sync", "-f", this.home), undefined);
    Deno.writeTextFileSync(this.#trigger!, "1");
  }

  unmount(): void {
    assert.notEqual(command("umount", "-l", this.home), undefined);
  }

  repair(): void {
    // 1: errors were corrected.
    const { code } = new Deno.Command("fsck.ext4", {
      args: ["-fy", this.#image],
      stdout: "null",
      stderr: "null",
    })
      .outputSync();
    assert.ok(code <= 1, String(code));
    assert.ok(this.mount());
  }

  [Symbol.dispose](): void {
    command("umount", "-l", this.home);
    Deno.removeSync(this.base, { recursive: true });
  }
}

/** Prints a step each 20 ms until the file $1 exists. A write that fails is lost. */
const WORKER = `i=0; while [ ! -e "$1" ]; do
  echo '{"type":"step","step":'$i',"reward":1}'; i=$((i + 1)); sleep 0.02
done`;

Deno.test("a file system turned read-only: workers are held, after umount nobody uses it, and repaired it goes on", async () => {
  using disk = Ext4.make();
  if (disk === undefined) return;
  const stateDir = `${disk.home}/state`;
  Deno.mkdirSync(stateDir, { mode: 0o700 });
  await using daemon = await TestDaemon.start({
    stateDir,
    args: ["--listen", "none", "--http", "none"],
  });
  const stop = `${disk.base}/stop`;
  const run = await submit(
    daemon,
    configOf({
      command: ["/bin/sh", "-c", WORKER, "sh", stop],
      metadata: { restart: { max_attempts: 2, backoff_s: 0 } },
    }),
  );
  await until(async () => (await getRun(daemon, run)).telemetry!.steps >= 50n, {
    what: "steps to be stored",
  });
  disk.fail();
  await until(
    async () => /^a writable file system .*read-only/.test((await getRun(daemon, run)).waitingFor),
    {
      what: "the run to say what it waits for",
      state: () => getRun(daemon, run),
    },
  );
  const { workerPid } = await getRun(daemon, run);
  await until(() => /^State:\tT/m.test(Deno.readTextFileSync(`/proc/${workerPid}/status`)), {
    what: "the worker to be held",
    state: () => Deno.readTextFileSync(`/proc/${workerPid}/status`),
  });
  disk.unmount();
  await until(() => disk.device === "", {
    what: "all of mosaic's processes to let go of it",
    timeoutMs: 30_000,
  });
  assert.notEqual(daemon.died, undefined);
  Deno.writeTextFileSync(stop, "");
  disk.repair();
  await daemon.restart();
  await untilState(daemon, run, "TERMINATED");
  assert.equal((await getRun(daemon, run)).attempt, 2);
  const stored = (await steps(daemon, run)).map(({ step_index }) => step_index);
  assert.ok(stored.length >= 50);
  assert.deepEqual(stored, stored.map((_, i) => i));
});
