/** How the daemon itself ends a worker. */
import assert from "node:assert/strict";
import { GroupStop } from "../../../src/dispatch/attempt/group_stop.ts";
import { isAlive, processRef } from "../../../src/os/identity.ts";
import { signalProcess } from "../../../src/os/signals.ts";
import { until } from "../../harness/wait.ts";

Deno.test("group stop: a helper that ignores SIGTERM in a session of the worker's own is killed after the grace period", async () => {
  const file = Deno.makeTempFileSync();
  const child = new Deno.Command("sh", {
    args: ["-c", `setsid sh -c 'trap "" TERM; sleep 600 & echo $! >"$0"; trap - TERM; wait' "$0" & wait`, file],
    stdin: "null",
    detached: true,
  }).spawn();
  await until(() => Deno.readTextFileSync(file).endsWith("\n"), { what: "the helper" });
  const helper = processRef(Number(Deno.readTextFileSync(file)))!;
  try {
    const leader = processRef(child.pid)!;
    const stop = new GroupStop(1000, 0);
    stop.advance(0, leader, undefined);
    await child.status;
    stop.advance(500, leader, undefined);
    assert.equal(stop.goneFor(500), undefined, "the helper lives");
    assert.ok(stop.alive(leader) && isAlive(helper));
    stop.advance(1001, leader, undefined);
    await until(() => !stop.alive(leader), { what: "the helper to be gone" });
    stop.advance(1100, leader, undefined);
    assert.equal(stop.goneFor(1150), 50);
    assert.ok(!isAlive(helper));
  } finally {
    signalProcess(helper, "SIGKILL");
    Deno.removeSync(file);
  }
});
