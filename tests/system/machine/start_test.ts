/** What keeps a daemon from starting, and what mends it. */
import assert from "node:assert/strict";
import { Layout } from "../../../src/base/layout.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit } from "../../harness/runs.ts";
import { mosaic, type Said } from "./cli.ts";
import { diskTest } from "./small_disk.ts";
import { SteppedWorker } from "./workers.ts";

function startAgain(stateDir: string): Promise<Said> {
  return mosaic([
    "daemon",
    "--state-dir",
    stateDir,
    "--gpus",
    "0",
    "--listen",
    "127.0.0.1:0",
    "--http",
    "none",
  ]);
}

/** One line that says what is wrong, and one that says what to do. */
function assertClear({ code, err }: Said, expected: number, ...patterns: RegExp[]): void {
  assert.equal(code, expected, err);
  const said = err.split("\n").filter((line) =>
    line.startsWith("mosaic daemon: ") || line.startsWith("  ")
  );
  assert.equal(said.length, 2, err);
  for (const pattern of patterns) assert.match(said.join("\n"), pattern);
  assert.doesNotMatch(err, /\n\s+at /);
}

/** Writes nonsense over a part of a file. */
function spoil(path: string, from: number, to: number): void {
  const file = Deno.openSync(path, { write: true });
  const junk = new Uint8Array(to - from).fill(0x5a);
  file.seekSync(from, Deno.SeekMode.Start);
  for (let done = 0; done < junk.length;) done += file.writeSync(junk.subarray(done));
  file.close();
}

diskTest(
  "start: a full disk and a read-only one are named, and with room the same directory is used",
  async (stage) => {
    const disk = stage.disk(`${stage.stateDir}/state`, "4m");
    const stateDir = disk.path;
    disk.fill();
    assertClear(await startAgain(stateDir), 4, /disk is full|No space left/, new RegExp(stateDir));
    disk.free();
    {
      await using daemon = await TestDaemon.start({ stateDir });
      assert.equal(await daemon.stop(), 0);
    }
    disk.remount("ro");
    assertClear(await startAgain(stateDir), 4, /[Rr]ead-only/, new RegExp(stateDir));
    disk.remount("rw");
    await using daemon = await TestDaemon.start({ stateDir });
    assert.equal(await daemon.stop(), 0);
  },
);

/** A directory with an ended run, its daemon stopped; made once, and copied back for each test. */
const used = { directory: "", copy: "", run: "" };

async function makeUsedDirectory(): Promise<void> {
  used.directory = Deno.makeTempDirSync({ prefix: "mosaic-start-" });
  used.copy = `${used.directory}-copy`;
  const { directory: stateDir } = used;
  await using daemon = await TestDaemon.start({ stateDir });
  const worker = new SteppedWorker(stateDir, [3000], 100);
  used.run = await submit(daemon, worker.config());
  await worker.assertWhole(daemon, used.run);
  await daemon.stop();
  copy(used.directory, used.copy);
}

function copy(from: string, to: string): void {
  const { success, stderr } = new Deno.Command("cp", { args: ["-a", from, to], stdin: "null" })
    .outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

async function usedDirectory(
  work: (stateDir: string, layout: Layout, run: string) => Promise<void>,
): Promise<void> {
  if (used.directory === "") await makeUsedDirectory();
  await Deno.remove(used.directory, { recursive: true });
  copy(used.copy, used.directory);
  await work(used.directory, new Layout(used.directory), used.run);
}

Deno.test.afterAll(async () => {
  for (const directory of [used.directory, used.copy]) {
    await Deno.remove(directory, { recursive: true });
  }
});

/**
 * After the repair a daemon starts and runs what it is given. @returns the daemon, for more
 * questions
 */
async function mendedDaemon(stateDir: string): Promise<TestDaemon> {
  const found = await mosaic(["doctor", "--state-dir", stateDir]);
  assert.equal(found.code, 1, found.out + found.err);
  assert.match(found.out, /^error /m);
  assert.match(found.out, /--repair would/);
  const mended = await mosaic(["doctor", "--repair", "--state-dir", stateDir]);
  assert.match(mended.out, /^repaired /m, mended.out + mended.err);
  assert.doesNotMatch(mended.out, /^(error|NOT repaired) /m);
  const daemon = await TestDaemon.start({ stateDir });
  const worker = new SteppedWorker(stateDir, [100]);
  await worker.assertWhole(daemon, await submit(daemon, worker.config()));
  return daemon;
}

/** A repair sets the damaged registry aside, and deletes nothing. */
function assertDamagedIsKept(layout: Layout): void {
  const names = [...Deno.readDirSync(layout.trainer)].map(({ name }) => name);
  assert(names.some((name) => name.startsWith("registry.db.damaged-")), names.join(" "));
}

Deno.test("start: a registry without its first page has an exit code of its own; doctor mends it, and the runs are all there", () =>
  usedDirectory(async (stateDir, layout, run) => {
    spoil(layout.registryDb, 0, 100);
    assertClear(await startAgain(stateDir), 6, /registry\.db/, /mosaic doctor --repair/);
    await using daemon = await mendedDaemon(stateDir);
    assert.equal((await getRun(daemon, run)).state, "TERMINATED");
    assertDamagedIsKept(layout);
  }));

Deno.test("start: a registry that is no database: the same, and runs' files stay", () =>
  usedDirectory(async (stateDir, layout, run) => {
    spoil(layout.registryDb, 0, Deno.statSync(layout.registryDb).size);
    assertClear(await startAgain(stateDir), 6, /registry\.db/, /mosaic doctor --repair/);
    await using daemon = await mendedDaemon(stateDir);
    await assert.rejects(getRun(daemon, run), { code: "not_found" });
    assert(Deno.statSync(`${layout.runDir("custom_scripts", run)}/logs`).isDirectory);
    assertDamagedIsKept(layout);
  }));

Deno.test("start: a registry with damaged pages is found out at the start; doctor saves what can be read", () =>
  usedDirectory(async (stateDir, layout) => {
    // The header is whole: only who reads the tables finds out.
    spoil(layout.registryDb, 4096, Deno.statSync(layout.registryDb).size);
    assertClear(await startAgain(stateDir), 6, /registry\.db/, /mosaic doctor --repair/);
    await using _daemon = await mendedDaemon(stateDir);
  }));

Deno.test("start: a telemetry store that is no database: the same, and the runs are all there", () =>
  usedDirectory(async (stateDir, layout, run) => {
    spoil(layout.telemetryDb, 0, 100);
    assertClear(
      await startAgain(stateDir),
      6,
      /telemetry\/mosaic\.sqlite/,
      /mosaic doctor --repair/,
    );
    await using daemon = await mendedDaemon(stateDir);
    assert.equal((await getRun(daemon, run)).state, "TERMINATED");
  }));

Deno.test("doctor: steps on damaged pages are filled again from the run's log, each once and in order", () =>
  usedDirectory(async (stateDir, layout, run) => {
    const size = Deno.statSync(layout.telemetryDb).size;
    const page = (share: number) => Math.floor(size * share / 4096) * 4096;
    spoil(layout.telemetryDb, page(0.5), page(0.75));
    await using daemon = await mendedDaemon(stateDir);
    const left = await steps(daemon, run);
    assert.equal(left.length, 3000);
    assert(left.every((step, i) => step.seq === i + 1 && step.step_index === i));
  }));
