/** One daemon at a time uses a state directory, and the next one gets it. */
import assert from "node:assert/strict";
import { takeStateDirectory } from "../../src/daemon/start/state_directory.ts";
import { examine } from "../../src/state/doctor/doctor.ts";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { tryLockPlace } from "../../src/os/files/place_lock.ts";
import { Layout } from "../../src/base/layout.ts";
import { RUNTIME_PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

const AS_PROCESS_1 = [
  "--unshare-pid",
  "--as-pid-1",
  "--die-with-parent",
  "--dev-bind",
  "/",
  "/",
  "--proc",
  "/proc",
];

function hasBubblewrap(): boolean {
  try {
    return new Deno.Command("bwrap", { args: [...AS_PROCESS_1, "true"] }).outputSync().success;
  } catch {
    return false;
  }
}

Deno.test("state directory: a daemon whose lock file was deleted keeps it all the same; one that hangs is replaced", async () => {
  await using daemon = await TestDaemon.start();
  await Deno.remove(daemon.layout.lockFile);
  assert.ok(
    !examine(daemon.stateDir).some(({ check }) => check === "daemon_files"),
    "doctor does not miss the file",
  );
  await assert.rejects(takeStateDirectory(daemon.layout, false), /already uses/);
  assert.ok(
    !examine(daemon.stateDir).some(({ check }) => check === "daemon_files"),
    "doctor knows that it runs",
  );

  await daemon.restart();
  // It does not hear SIGTERM.
  signalProcess(processRef(daemon.pid)!, "SIGSTOP");
  const held = await takeStateDirectory(daemon.layout, true, 300);
  held.release();
});

Deno.test("state directory: the locks of a killed holder, which a child that it was creating still has, are waited for", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/lock`;
  await Deno.writeTextFile(path, "");
  // Holds the file's lock until its input ends, as a child does until it runs a program.
  const child = new Deno.Command("flock", {
    args: [path, "sh", "-c", "echo has; read -r line; sleep 0.2"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  await child.stdout.getReader().read();
  const running = JSON.stringify(processRef(child.pid));
  await Deno.writeTextFile(path, running);
  assert.equal(tryLockPlace(path), undefined, "its holder is there");
  await Deno.writeTextFile(path, running.replace(/"identity":"/, "$&before "));
  await child.stdin.close();
  const lock = tryLockPlace(path);
  assert.ok(lock, "the recorded holder is gone, and soon its child lets go");
  lock.close();
  await child.status;
  await Deno.remove(directory, { recursive: true });
});

Deno.test("state directory: a daemon whose lock file was deleted is replaced; whoever cannot be is told how to go on", async () => {
  await using daemon = await TestDaemon.start();
  await Deno.remove(daemon.layout.lockFile);
  signalProcess(processRef(daemon.pid)!, "SIGSTOP");
  const json = await Deno.readTextFile(daemon.layout.daemonJson);
  await Deno.remove(daemon.layout.daemonJson);
  await assert.rejects(
    takeStateDirectory(daemon.layout, true, 100),
    ({ hint }: { hint?: string }) => {
      assert.match(hint ?? "", new RegExp(`could not be replaced: .*kill ${daemon.pid}`));
      return true;
    },
  );
  await Deno.writeTextFile(daemon.layout.daemonJson, json);
  const held = await takeStateDirectory(daemon.layout, true, 300);
  held.release();
});

Deno.test("state directory: where another daemon was faster than the one that replaces, that other is replaced", async () => {
  await using faster = await TestDaemon.start();
  const { lockFile } = faster.layout;
  const signature = await Deno.readTextFile(lockFile);
  const first = new Deno.Command("sleep", { args: ["600"] }).spawn();
  await Deno.writeTextFile(lockFile, JSON.stringify(processRef(first.pid)));
  const taken = takeStateDirectory(faster.layout, true, 300);
  assert.equal((await first.status).signal, "SIGTERM");
  await Deno.writeTextFile(lockFile, signature);
  (await taken).release();
});

Deno.test({
  name:
    "state directory: daemon.json of a daemon that is process 1 (of a container) has its pid, as any other's",
  ignore: !hasBubblewrap(),
  fn: async () => {
    const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
    const options = [
      "--state-dir",
      stateDir,
      "--listen",
      "none",
      "--http",
      "127.0.0.1:0",
      "--gpus",
      "0",
    ];
    const container = new Deno.Command("bwrap", {
      args: [...AS_PROCESS_1, ...RUNTIME_PROGRAM, "daemon", ...options],
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      const text = await until(() => readTextIfThere(new Layout(stateDir).daemonJson), {
        what: "daemon.json",
      });
      assert.equal(JSON.parse(text).pid, 1);
    } finally {
      container.kill("SIGKILL");
      await container.status;
      await Deno.remove(stateDir, { recursive: true });
    }
  },
});
