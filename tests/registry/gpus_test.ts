import assert from "node:assert/strict";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

Deno.test("gpus: a claim takes all slots or none", async () => {
  await withRegistry(({ registry }) => {
    registry.setGpuSlots([0, 1, 2]);
    registry.insert(newRun(1));
    registry.insert(newRun(2));
    assert.deepEqual(registry.claimGpus(runId(1), [1]).gpuSlots, [1]);
    assert.throws(() => registry.claimGpus(runId(2), [0, 1]), hasCode("failed_precondition", /slot 1 is held by run/));
    assert.throws(() => registry.claimGpus(runId(2), [7]), hasCode("failed_precondition", /no GPU slot 7/));
    assert.deepEqual(registry.gpuSlots(), [
      { slot: 0, runId: null },
      { slot: 1, runId: runId(1) },
      { slot: 2, runId: null },
    ]);
    assert.deepEqual(registry.claimGpus(runId(2), [2, 0]).gpuSlots, [0, 2]);
  });
});

for (
  const [how, event] of [
    ["terminated", { type: "exited_ok" }],
    ["faulted", { type: "failed", reason: "worker_timeout" }],
    ["cancelled", { type: "cancelled", reason: "user_cancel" }],
    ["sent back to the queue", { type: "requeued", reason: "daemon_stopped" }],
  ] as const
) {
  Deno.test(`gpus: a run that is ${how} gives its slots back in the same transaction`, async () => {
    await withRegistry(({ registry }) => {
      registry.setGpuSlots([0]);
      registry.insert(newRun(1));
      registry.claimGpus(runId(1), [0]);
      assert.deepEqual(registry.apply(runId(1), { type: "spawned" }).gpuSlots, [0]);
      assert.deepEqual(registry.apply(runId(1), event).gpuSlots, []);
      assert.deepEqual(registry.gpuSlots(), [{ slot: 0, runId: null }]);
    });
  });
}

Deno.test("gpus: an ended run can claim none", async () => {
  await withRegistry(({ registry }) => {
    registry.setGpuSlots([0]);
    registry.insert(newRun(1));
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    assert.throws(() => registry.claimGpus(runId(1), [0]), hasCode("failed_precondition", /has ended/));
  });
});

Deno.test("gpus: a slot that the host has lost stays with its holder and goes when that lets go", async () => {
  await withRegistry(({ registry }) => {
    registry.setGpuSlots([0, 1]);
    registry.insert(newRun(1));
    registry.insert(newRun(2));
    registry.claimGpus(runId(1), [1]);
    registry.setGpuSlots([0]);
    assert.deepEqual(registry.gpuSlots(), [{ slot: 0, runId: null }, { slot: 1, runId: runId(1) }]);
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    assert.deepEqual(registry.gpuSlots(), [{ slot: 0, runId: null }]);
    assert.throws(() => registry.claimGpus(runId(2), [1]), hasCode("failed_precondition"));
  });
});

Deno.test("gpus: time from a claim to its release, by run and day; what is measured is added; a deleted run still counts", async () => {
  let now = Date.UTC(2026, 0, 1, 23, 0, 0);
  await withRegistry(({ registry }) => {
    registry.setGpuSlots([0, 1]);
    registry.insert({ ...newRun(1), configJson: '{"metadata":{"submitted_by":"ada"}}' });
    registry.insert(newRun(2));
    registry.claimGpus(runId(1), [0, 1]);
    now += 1_800_000;
    assert.equal(registry.gpuUse(0)[0]!.gpuMs, 2 * 1_800_000);
    registry.countGpus(runId(1), { measuredMs: 3_000_000, idleMs: 1_000_000 });
    assert.equal(registry.gpuUse(0)[0]!.gpuMs, 2 * 1_800_000);
    // Not a holder: nothing is counted.
    registry.countGpus(runId(2), { measuredMs: 5, idleMs: 5 });
    now += 3_600_000;
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    const use = { runId: runId(1), name: newRun(1).name, submitter: "ada", measuredMs: 3_000_000, idleMs: 1_000_000 };
    assert.deepEqual(registry.gpuUse(0), [{ ...use, gpuMs: 2 * 5_400_000 }]);
    assert.deepEqual(registry.gpuUse(now).map(({ gpuMs }) => gpuMs), [2 * 3_600_000]);
    now += 3_600_000;
    registry.claimGpus(runId(2), [1]);
    now -= 7_200_000;
    // The clock was set back: no negative time.
    registry.apply(runId(2), { type: "cancelled", reason: "user_cancel" });
    registry.delete(runId(1));
    assert.deepEqual(registry.gpuUse(0).map(({ runId, gpuMs }) => [runId, gpuMs]), [[runId(1), 10_800_000], [
      runId(2),
      0,
    ]]);
  }, { now: () => now });
});
