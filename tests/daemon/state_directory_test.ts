/** One daemon at a time uses a state directory, and the next one gets it. */
import assert from "node:assert/strict";
import { takeStateDirectory } from "../../src/daemon/state_directory.ts";
import { examine } from "../../src/doctor/doctor.ts";
import { processRef } from "../../src/os/identity.ts";
import { signalProcess } from "../../src/os/signals.ts";
import { TestDaemon } from "../harness/daemon.ts";

Deno.test("state directory: a daemon whose lock file was deleted keeps it all the same; one that hangs is replaced", async () => {
  await using daemon = await TestDaemon.start();
  await Deno.remove(daemon.layout.lockFile);
  assert.ok(!examine(daemon.stateDir).some(({ check }) => check === "daemon_files"), "doctor does not miss the file");
  await assert.rejects(takeStateDirectory(daemon.layout, false), /already uses/);
  assert.ok(!examine(daemon.stateDir).some(({ check }) => check === "daemon_files"), "doctor knows that it runs");

  await daemon.restart();
  // It does not hear SIGTERM.
  signalProcess(processRef(daemon.pid)!, "SIGSTOP");
  const held = await takeStateDirectory(daemon.layout, true, 300);
  held.release();
});

Deno.test("state directory: a daemon whose lock file was deleted is replaced; whoever cannot be is told how to go on", async () => {
  await using daemon = await TestDaemon.start();
  await Deno.remove(daemon.layout.lockFile);
  signalProcess(processRef(daemon.pid)!, "SIGSTOP");
  const json = await Deno.readTextFile(daemon.layout.daemonJson);
  await Deno.remove(daemon.layout.daemonJson);
  await assert.rejects(takeStateDirectory(daemon.layout, true, 100), ({ hint }: { hint?: string }) => {
    assert.match(hint ?? "", new RegExp(`could not be replaced: .*kill ${daemon.pid}`));
    return true;
  });
  await Deno.writeTextFile(daemon.layout.daemonJson, json);
  const held = await takeStateDirectory(daemon.layout, true, 300);
  held.release();
});
