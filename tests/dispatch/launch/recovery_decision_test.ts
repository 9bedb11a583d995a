import assert from "node:assert/strict";
import { recoveryOf } from "../../../src/dispatch/launch/local/recovery_decision.ts";

Deno.test("recovery: the table of what is done with a run whose processes are uncertain", () => {
  const table: [boolean, boolean, boolean, string][] = [
    // proxy lives, worker started, registered
    [true, true, true, "await"],
    [true, true, false, "await"],
    [true, false, false, "await"],
    [true, false, true, "await"],
    [false, true, true, "attach"],
    [false, true, false, "attach"],
    [false, false, true, "attach"],
    [false, false, false, "start_again"],
  ];
  for (const [proxyLives, workerStarted, registered, expected] of table) {
    assert.equal(recoveryOf({ proxyLives, workerStarted, registered }), expected);
  }
});
