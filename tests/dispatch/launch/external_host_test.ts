import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { planOf } from "../../../src/config/plan.ts";
import type { RunRow } from "../../../src/registry/row_types.ts";
import { configOf } from "../../harness/configs.ts";
import { ExternalHost } from "../../../src/dispatch/launch/external_host.ts";

Deno.test("external host: a proxy that is away is waited for; a stopped attempt ends without one after its time", () => {
  const attempt = new ExternalHost({ graceSeconds: 5 }).attempt({} as RunRow, {
    plan: planOf(configOf({ command: ["true"] })),
    files: new RunFiles("/runs/R", ""),
  });
  const at = (now: number, registered: boolean, stoppingSince?: number) =>
    attempt.whileAbsent({ now, registered, stoppingSince, mayReplace: true }).do;
  assert.equal(at(1e9, true), "wait");
  assert.equal(at(1e9, false), "wait");
  // No proxy has come yet: nobody has to be waited for.
  assert.equal(at(100, false, 100), "over");
  assert.equal(at(20_099, true, 100), "wait");
  assert.equal(at(20_100, true, 100), "over");
});

Deno.test("external host: its processes are neither looked for nor counted as starting", () => {
  const attempt = new ExternalHost({ graceSeconds: 5 }).attempt({} as RunRow, {
    plan: planOf(configOf({ command: ["true"] })),
    files: new RunFiles("/runs/R", ""),
  });
  assert.deepEqual([attempt.startsProxy, attempt.replacing], [false, false]);
  assert.deepEqual([attempt.worker(), attempt.newWorker(), attempt.group(true)], [
    undefined,
    undefined,
    "unknown",
  ]);
  assert.deepEqual(attempt.endRest(undefined, 0), { ended: true });
});
