/** When an attempt elsewhere is over though its engine cannot vouch for it. */
import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { tryLock } from "../../../src/os/files/files.ts";
import { planOf } from "../../../src/config/plan.ts";
import { PlacedHost } from "../../../src/dispatch/launch/placed/placed_host.ts";
import type { JobView, Placer } from "../../../src/dispatch/launch/placed/placer.ts";
import type { RunRow } from "../../../src/registry/row_types.ts";
import { configOf } from "../../harness/configs.ts";

const NODE_FAIL: JobView["job"] = {
  t: "ended",
  end: { kind: "node_fail", proven: false, text: "NODE_FAIL" },
};

interface Asked {
  slurm?: Record<string, unknown>;
  job?: JobView["job"];
  cancelRequested?: boolean;
  files?: RunFiles;
}

function attemptOf(
  { slurm = {}, job = NODE_FAIL, cancelRequested = false, files = new RunFiles("/nowhere", "") }:
    Asked = {},
) {
  const plan = planOf(configOf({ command: ["/bin/true"], metadata: { launcher: "slurm", slurm } }));
  const placer = {
    view: (): JobView => ({ job, cancelRequested, ran: 0, name: "", on: "" }),
    stop() {},
    release() {},
  };
  const host = new PlacedHost({
    uploads: () => false,
    handshakeTimeoutSeconds: 60,
    placer: () => placer as unknown as Placer,
    attach: () => undefined,
  });
  const row = { runId: "r", attempt: 1 } as RunRow;
  return host.attempt(row, { plan, files, now: 0 });
}
const absent = (now: number) => ({
  now,
  registered: true,
  stoppingSince: undefined,
  mayReplace: true,
});

Deno.test("a doubtful end is believed when the lease is over and its proxy has had the time to stop the worker", () => {
  const attempt = attemptOf({ slurm: { lease_seconds: 10 } });
  assert.deepEqual(attempt.whileAbsent(absent(44_000)), { do: "wait" });
  attempt.proxyConnected({ pid: 1, identity: "" }, undefined);
  assert.deepEqual(attempt.whileAbsent(absent(100_000)), { do: "wait" });
  attempt.proxyAbsent(100_000);
  assert.deepEqual(attempt.whileAbsent(absent(144_000)), { do: "wait" });
  assert.notEqual(attempt.whileAbsent(absent(145_000)).do, "wait");
  assert.equal(attempt.group(true), "gone");
  assert.deepEqual(attempt.endRest(undefined, 145_000), {
    ended: true,
    engine: { reason: "node_fail", text: "NODE_FAIL" },
  });
});

Deno.test("a job that is forgotten while it runs is over with its lease, and never without one", () => {
  const forgotten = { t: "forgotten" } as const;
  const attempt = attemptOf({ slurm: { lease_seconds: 10 }, job: forgotten });
  assert.notEqual(attempt.whileAbsent(absent(45_000)).do, "wait");
  assert.equal(attempt.endRest(undefined, 45_000).engine?.reason, "job_forgotten");
  assert.deepEqual(attemptOf({ job: forgotten }).whileAbsent(absent(1e12)), { do: "wait" });
});

Deno.test("cancelled while its node does not answer, an attempt is over at once where the node's proxy holds it", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const files = new RunFiles(directory, "");
    Deno.mkdirSync(files.control);
    Deno.writeTextFileSync(files.proxyLock(1), "");
    const step = () => attemptOf({ cancelRequested: true, files }).whileAbsent(absent(0));
    const over = { do: "over", engine: { reason: "node_fail", text: "NODE_FAIL" } };
    assert.notDeepEqual(step(), over, "its proxy is gone: another one looks at what is left");
    using held = tryLock(files.proxyLock(1));
    assert.ok(held);
    assert.deepEqual(step(), over);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
