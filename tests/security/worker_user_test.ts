/**
 * Workers of a daemon that is root's run as other users, and reach nothing of root's or of each
 * other's. Needs root.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { Layout } from "../../src/base/layout.ts";
import { WorkerUsers } from "../../src/dispatch/launch/local/worker_users.ts";
import { findUser, parseWorkerUser } from "../../src/os/rights/worker_user.ts";
import { hasBubblewrap } from "../harness/bubblewrap.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { mosaic } from "../system/machine/cli.ts";

const ignore = Deno.uid() !== 0;
const bubblewrap = hasBubblewrap();
if (!bubblewrap) console.log("SKIPPED: bubblewrap is not usable here");

/** Each line is what was tried, and whether it was done. */
const attack = (other: string) => `
try() { name=$1; shift; if ("$@") >/dev/null 2>&1; then echo "$name done"; else echo "$name refused"; fi; }
state=\${MOSAIC_RUN_DIR%/trainer/*}
echo "uid $(id -u) $(id -g) $HOME"
grep CapEff /proc/self/status
try write sh -c 'echo 1 > "$MOSAIC_RUN_DIR/analytics.json" && echo 1 > "$MOSAIC_CHECKPOINT_DIR/a.pt"'
try config cat "$TRAINER_WORKER_CONFIG_PATH"
try token cat "$MOSAIC_TOKEN_FILE"
try records mv "$MOSAIC_RUN_DIR/.mosaic" "$MOSAIC_RUN_DIR/.aside"
try exit sh -c 'echo x > "$MOSAIC_RUN_DIR/.mosaic/exit-1.json"'
try session cat "$MOSAIC_RUN_DIR/.mosaic/proxy-1.json"
try logs rm -rf "$MOSAIC_RUN_DIR/logs"
if (: > /dev/stdout) 2>/dev/null; then echo "journal done"; else echo "journal refused"; fi
try registry cat "$state/trainer/registry.db"
try tokens cat "$state/trainer/tokens.json"
try link ln "$state/trainer/registry.db" "$MOSAIC_CHECKPOINT_DIR/b.pt"
try runs ls "$state/trainer/custom_scripts"
try other ls "${other}"
try signal kill -0 $(cat "$state/trainer/daemon.pid")
`;
const REACHED = ["write done", "config done"];
const REFUSED = "records session logs journal registry tokens link other signal".split(" ");

async function linesOf(daemon: TestDaemon, id: string, ...more: string[]): Promise<string[]> {
  return (await mosaic(["logs", "--target", daemon.target, id, ...more])).out.split("\n");
}

async function tried(daemon: TestDaemon, other: string, metadata: Record<string, unknown> = {}) {
  const command = ["/bin/sh", "-c", attack(other)];
  const worker = {
    script: command[0],
    arguments: command.slice(1),
    use_grpc: false,
    config: { seed: 1 },
  };
  const { worker: more = {}, ...rest } = metadata;
  const id = await submit(
    daemon,
    configOf({ command, metadata: { ...rest, worker: { ...worker, ...more as object } } }),
  );
  await untilState(daemon, id, "TERMINATED");
  return {
    id,
    lines: await linesOf(daemon, id),
    directory: daemon.layout.runDir("custom_scripts", id),
  };
}

function assertHeld(lines: string[], directory: string, uid: number): void {
  assert.ok(lines.includes(`uid ${uid} ${uid} ${directory}`), lines.join("\n"));
  assert.ok(lines.some((line) => /^CapEff:\s+0+$/.test(line)));
  for (const line of REACHED) assert.ok(lines.includes(line), lines.join("\n"));
  for (const name of REFUSED) assert.ok(lines.includes(`${name} refused`), lines.join("\n"));
}

async function passable(daemon: TestDaemon): Promise<TestDaemon> {
  // The test's own directory is above it.
  for (const directory of [daemon.stateDir, dirname(daemon.stateDir)]) {
    if (directory !== "/tmp") await Deno.chmod(directory, 0o711);
  }
  return daemon;
}

Deno.test({
  name:
    "worker.user: a number of its own for each run, which reaches its run's files and nothing else",
  ignore,
  async fn() {
    await using planned = await PlannedDaemon.start(["--worker-user", "54321-54330"]);
    const daemon = await passable(planned.daemon);
    const first = await tried(daemon, "/root");
    assertHeld(first.lines, first.directory, 54321);
    // A sandbox has its own in their places.
    for (const line of ["exit refused", "runs refused"]) assert.ok(first.lines.includes(line));
    const second = await tried(daemon, first.directory);
    assertHeld(second.lines, second.directory, 54322);
    assert.ok(second.lines.includes("token done"));
    // A second attempt is the same user, and its own files are its own again.
    assert.equal((await mosaic(["retry", "--target", daemon.target, second.id])).code, 0);
    await until(async () => (await getRun(daemon, second.id)).attempt === 2, {
      what: "the second attempt",
    });
    await untilState(daemon, second.id, "TERMINATED");
    assertHeld(await linesOf(daemon, second.id), second.directory, 54322);
  },
});

Deno.test({
  name: "worker.user: in a sandbox and for modules imported before the start, too",
  ignore: ignore || !bubblewrap,
  async fn() {
    await using daemon = await passable(await TestDaemon.start());
    const module = `${daemon.stateDir}/whose.py`;
    Deno.writeTextFileSync(
      module,
      `import os\nassert os.getuid() == 54321, "uid %d" % os.getuid()\n`,
    );
    Deno.chmodSync(module, 0o644);
    const { lines, directory } = await tried(daemon, "/root", {
      worker: { user: 54321, cwd: "/" },
      sandbox: { kind: "bubblewrap", network: true },
      preflight: { modules: ["os"] },
    });
    assertHeld(lines, directory, 54321);
  },
});

Deno.test("worker.user: who is no user, is root, or is not the daemon's to choose is refused", () => {
  const layout = new Layout("/nonexistent");
  const users = (isRoot: boolean, option?: string) => new WorkerUsers(layout, isRoot, option);
  assert.throws(
    () => users(false).check("nobody", ""),
    /worker.user is "nobody", and only a daemon of root/,
  );
  assert.throws(
    () => users(true, "54321").check("nobody", ""),
    /--worker-user holds for every run/,
  );
  users(true, "54321").check("54321", "");
  const owned = users(true, "@owner");
  assert.equal(owned.of("", "uid:54321", "/nonexistent")!.uid, 54321);
  assert.equal(owned.of("", "nobody", "/nonexistent")!.name, "nobody");
  assert.throws(() => owned.check("", ""), /@owner, and the run has no known owner/);
  assert.throws(() => owned.check("", "uid:0"), /root/);
  assert.throws(() => owned.check("nobody", "games"), /--worker-user holds for every run/);
  assert.throws(() => findUser("no-such-user"), /knows no user "no-such-user"/);
  assert.throws(() => findUser("root"), /root/);
  assert.deepEqual(parseWorkerUser("54321-54330"), { first: 54321, last: 54330 });
  for (const wrong of ["0-5", "9-5", "a b", "-x", ""]) assert.throws(() => parseWorkerUser(wrong));
});
