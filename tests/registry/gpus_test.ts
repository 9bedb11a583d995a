import assert from "node:assert/strict";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

Deno.test("gpus: a claim takes all slots or none", async () => {
  await withRegistry(({ registry }) => {
    registry.gpus.set([0, 1, 2]);
    registry.insert(newRun(1));
    registry.insert(newRun(2));
    registry.gpus.claim(runId(1), [1]);
    assert.deepEqual(registry.require(runId(1)).gpuSlots, [1]);
    assert.throws(
      () => registry.gpus.claim(runId(2), [0, 1]),
      hasCode("failed_precondition", /slot 1 is held by run/),
    );
    assert.throws(
      () => registry.gpus.claim(runId(2), [7]),
      hasCode("failed_precondition", /no GPU slot 7/),
    );
    assert.deepEqual(registry.gpus.slots(), [
      { slot: 0, runId: null, shares: [] },
      { slot: 1, runId: runId(1), shares: [] },
      { slot: 2, runId: null, shares: [] },
    ]);
    registry.gpus.claim(runId(2), [2, 0]);
    assert.deepEqual(registry.require(runId(2)).gpuSlots, [0, 2]);
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
      registry.gpus.set([0]);
      registry.insert(newRun(1));
      registry.gpus.claim(runId(1), [0]);
      assert.deepEqual(registry.apply(runId(1), { type: "spawned" }).gpuSlots, [0]);
      assert.deepEqual(registry.apply(runId(1), event).gpuSlots, []);
      assert.deepEqual(registry.gpus.slots(), [{ slot: 0, runId: null, shares: [] }]);
    });
  });
}

Deno.test("gpus: an ended run can claim none", async () => {
  await withRegistry(({ registry }) => {
    registry.gpus.set([0]);
    registry.insert(newRun(1));
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    assert.throws(
      () => registry.gpus.claim(runId(1), [0]),
      hasCode("failed_precondition", /has ended/),
    );
  });
});

Deno.test("gpus: a slot that the host has lost stays with its holder and goes when that lets go", async () => {
  await withRegistry(({ registry }) => {
    registry.gpus.set([0, 1]);
    registry.insert(newRun(1));
    registry.insert(newRun(2));
    registry.gpus.claim(runId(1), [1]);
    registry.gpus.set([0]);
    assert.deepEqual(registry.gpus.slots(), [{ slot: 0, runId: null, shares: [] }, {
      slot: 1,
      runId: runId(1),
      shares: [],
    }]);
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    assert.deepEqual(registry.gpus.slots(), [{ slot: 0, runId: null, shares: [] }]);
    assert.throws(() => registry.gpus.claim(runId(2), [1]), hasCode("failed_precondition"));
  });
});

Deno.test("gpus: time from a claim to its release, by run and day; what is measured is added; a deleted run still counts", async () => {
  let now = Date.UTC(2026, 0, 1, 23, 0, 0);
  await withRegistry(({ registry }) => {
    registry.gpus.set([0, 1]);
    registry.insert(newRun(1, { owner: "ada", tags: ["sweep:lr"] }));
    registry.insert(newRun(2));
    registry.gpus.claim(runId(1), [0, 1]);
    now += 1_800_000;
    assert.equal(registry.gpus.use(0)[0]!.gpuMs, 2 * 1_800_000);
    registry.gpus.count(runId(1), { measuredMs: 3_000_000, idleMs: 1_000_000 });
    assert.equal(registry.gpus.use(0)[0]!.gpuMs, 2 * 1_800_000);
    // Not a holder: nothing is counted.
    registry.gpus.count(runId(2), { measuredMs: 5, idleMs: 5 });
    now += 3_600_000;
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    const use = {
      runId: runId(1),
      name: newRun(1).name,
      submitter: "ada",
      tags: ["sweep:lr"],
      measuredMs: 3_000_000,
      idleMs: 1_000_000,
    };
    assert.deepEqual(registry.gpus.use(0), [{ ...use, gpuMs: 2 * 5_400_000 }]);
    assert.deepEqual(registry.gpus.use(now).map(({ gpuMs }) => gpuMs), [2 * 3_600_000]);
    now += 3_600_000;
    registry.gpus.claim(runId(2), [1]);
    now -= 7_200_000;
    // The clock was set back: no negative time.
    registry.apply(runId(2), { type: "cancelled", reason: "user_cancel" });
    registry.delete(runId(1));
    assert.deepEqual(registry.gpus.use(0).map(({ runId, gpuMs }) => [runId, gpuMs]), [[
      runId(1),
      10_800_000,
    ], [
      runId(2),
      0,
    ]]);
  }, { now: () => now });
});

Deno.test("gpus: runs share a card up to the whole of it, and never with a run that has it alone", async () => {
  await withRegistry(({ registry }) => {
    registry.gpus.set([0, 1]);
    for (const n of [1, 2, 3, 4]) registry.insert(newRun(n));
    const third = (slot: number) => ({ slot, part: 1 / 3, memoryMb: 8192 });
    registry.gpus.claimShares(runId(1), [third(0)]);
    registry.gpus.claimShares(runId(2), [third(0)]);
    const shares = [{ runId: runId(1), part: 1 / 3, memoryMb: 8192 }, {
      runId: runId(2),
      part: 1 / 3,
      memoryMb: 8192,
    }];
    assert.deepEqual(registry.gpus.slots(), [
      { slot: 0, runId: null, shares },
      { slot: 1, runId: null, shares: [] },
    ]);
    assert.deepEqual(registry.require(runId(2)).gpuSlots, [0]);
    assert.throws(
      () => registry.gpus.claim(runId(3), [1, 0]),
      hasCode("failed_precondition", /slot 0 is shared by run .*, /),
    );
    assert.throws(
      () => registry.gpus.claimShares(runId(3), [{ slot: 0, part: 0.5, memoryMb: null }]),
      hasCode("failed_precondition", /slot 0 has 33.3 % left, and run .* needs 50 %/),
    );
    registry.gpus.claimShares(runId(3), [third(0)]);
    registry.gpus.claim(runId(4), [1]);
    assert.throws(
      () => registry.gpus.claimShares(runId(3), [third(1)]),
      hasCode("failed_precondition", /slot 1 is held by run/),
    );
    for (const n of [1, 2, 3]) {
      registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
    }
    assert.deepEqual(registry.gpus.slots()[0], { slot: 0, runId: null, shares: [] });
  });
});

Deno.test("gpus: shares survive a restart and a lost card, and count in part", async () => {
  let now = Date.UTC(2026, 0, 1);
  const shared = [{ slot: 0, part: 0.25, memoryMb: null }];
  await withRegistry(({ registry, reopen }) => {
    registry.gpus.set([0, 1], new Map([[0, "GPU-a"]]));
    registry.insert(newRun(1));
    registry.gpus.claimShares(runId(1), shared);
    now += 3_600_000;
    const again = reopen();
    again.gpus.set([1]);
    const [first] = again.gpus.devices();
    assert.deepEqual(first, {
      slot: 0,
      uuid: "GPU-a",
      runId: null,
      shares: [{ runId: runId(1), part: 0.25, memoryMb: null }],
    });
    assert.equal(again.gpus.use(0)[0]!.gpuMs, 900_000);
    again.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    assert.deepEqual(again.gpus.slots(), [{ slot: 1, runId: null, shares: [] }]);
    assert.equal(again.gpus.use(0)[0]!.gpuMs, 900_000);
  }, { now: () => now });
});
