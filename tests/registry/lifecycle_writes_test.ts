import assert from "node:assert/strict";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

const R = runId(1);

Deno.test("registry: a submitted run is INIT with its first transition and a queued event", async () => {
  await withRegistry(({ registry, clock }) => {
    const run = registry.insert(newRun(1, { tags: ["a", "b"], priority: 3, gpusMandatory: true }));
    assert.equal(run.state, "INIT");
    assert.equal(run.attempt, 1);
    assert.equal(run.createdAt, clock.now);
    assert.deepEqual(run.tags, ["a", "b"]);
    assert.equal(run.gpusMandatory, true);
    assert.deepEqual(run.stderrTail, []);
    assert.deepEqual(run.gpuSlots, []);
    assert.equal(run.proxy, null);
    assert.deepEqual(registry.transitions(R).map(({ from, to, event }) => ({ from, to, event })), [
      { from: null, to: "INIT", event: "submit" },
    ]);
    assert.deepEqual(registry.eventsSince(0, { limit: 10 }).map((e) => [e.kind, e.runName]), [[
      "queued",
      "run-1",
    ]]);
  });
});

Deno.test("registry: a run id is given once", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    assert.throws(() => registry.insert(newRun(1, { name: "other" })), hasCode("already_exists"));
    assert.equal(registry.require(R).name, "run-1");
    assert.equal(registry.eventHead(), 1);
  });
});

Deno.test("registry: a state change is a row, a transition and an event, and all survive reopening", async () => {
  await withRegistry((fixture) => {
    const { registry, clock } = fixture;
    registry.insert(newRun(1));
    clock.now += 10;
    registry.apply(R, { type: "spawned" }, { proxy: { pid: 77, identity: "boot/1" } });
    registry.apply(R, { type: "registered" }, { sessionToken: "secret", supportsPause: true });
    clock.now += 10;
    registry.apply(R, { type: "failed", reason: "exit_code_3" }, {
      exitCode: 3,
      hint: "look",
      stderrTail: ["oops"],
    });

    const again = fixture.reopen();
    const run = again.require(R);
    assert.equal(run.state, "FAULTED");
    assert.equal(run.outcome, "failed");
    assert.equal(run.reason, "exit_code_3");
    assert.equal(run.startedAt, 1_700_000_000_010);
    assert.equal(run.finishedAt, 1_700_000_000_020);
    assert.deepEqual(run.proxy, { pid: 77, identity: "boot/1" });
    assert.equal(run.supportsPause, true);
    assert.deepEqual(run.stderrTail, ["oops"]);
    assert.deepEqual(again.transitions(R).map((t) => t.to), [
      "INIT",
      "HANDSHAKE",
      "READY",
      "FAULTED",
    ]);
    const last = again.eventsSince(0, { runId: R, limit: 10 }).at(-1)!;
    assert.equal(last.kind, "state");
    assert.deepEqual(JSON.parse(last.dataJson), {
      from: "READY",
      to: "FAULTED",
      event: "failed",
      reason: "exit_code_3",
      attempt: 1,
    });
    assert.equal(again.transitionHead(), 4);
  });
});

Deno.test("registry: an event that the run has outlived writes nothing", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    registry.apply(R, { type: "spawned" });
    registry.apply(R, { type: "active" });
    const before = registry.require(R);
    const head = registry.eventHead();
    assert.deepEqual(registry.apply(R, { type: "registered" }, { workerKind: "other" }), before);
    assert.equal(registry.eventHead(), head);
    assert.equal(registry.transitionHead(), 3);
  });
});

Deno.test("registry: a refused event changes nothing", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    registry.apply(R, { type: "cancelled", reason: "user_cancel" });
    const before = registry.require(R);
    assert.throws(
      () => registry.apply(R, { type: "failed", reason: "late" }, { exitCode: 1 }),
      hasCode("failed_precondition", /CANCELLED/),
    );
    assert.deepEqual(registry.require(R), before);
    assert.equal(registry.transitionHead(), 2);
    assert.throws(() => registry.apply(runId(9), { type: "spawned" }), hasCode("not_found"));
  });
});

Deno.test("registry: a patch cannot smuggle in a state", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    const patch = {
      state: "TERMINATED",
      attempt: 9,
      outcome: "succeeded",
      reason: "waits",
    } as Record<string, unknown>;
    const run = registry.update(R, patch);
    assert.deepEqual([run.state, run.attempt, run.outcome, run.reason], ["INIT", 1, null, "waits"]);
  });
});

Deno.test("registry: a retry is the next attempt and forgets how the one before ended", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1, { maxAttempts: 2 }));
    registry.apply(R, { type: "spawned" }, {
      proxy: { pid: 77, identity: "x" },
      sessionToken: "old",
    });
    registry.touchHeartbeat(R, 1_700_000_000_500);
    registry.apply(R, { type: "failed", reason: "exit_code_3" }, {
      exitCode: 3,
      stderrTail: ["oops"],
      hint: "look",
    });
    const run = registry.apply(R, { type: "retry", reason: "restart" }, {
      notBefore: 5,
      resumeFrom: "ckpt/1",
    });
    assert.deepEqual(
      [
        run.state,
        run.attempt,
        run.outcome,
        run.finishedAt,
        run.exitCode,
        run.hint,
        run.proxy,
        run.sessionToken,
      ],
      ["INIT", 2, null, null, null, null, null, null],
    );
    assert.deepEqual([run.reason, run.notBefore, run.resumeFrom, run.lastHeartbeatAt], [
      "restart",
      5,
      "ckpt/1",
      null,
    ]);
    assert.equal(registry.transitions(R).find((t) => t.to === "FAULTED")!.reason, "exit_code_3");
    assert.equal(registry.apply(R, { type: "spawned" }).notBefore, null);
  });
});

Deno.test("registry: deleting a run leaves its name in a deleted event, and sequence numbers go on", async () => {
  await withRegistry((fixture) => {
    const { registry } = fixture;
    registry.insert(newRun(1, { name: "gone" }));
    assert.throws(() => registry.delete(R), hasCode("failed_precondition", /INIT/));
    registry.apply(R, { type: "cancelled", reason: "user_cancel" });
    registry.putArtifact({
      runId: R,
      path: "a",
      kind: "checkpoint",
      bytes: 1,
      sha256: "",
      step: null,
      windowId: "",
      at: 1,
    });
    registry.delete(R);
    assert.equal(registry.get(R), undefined);
    assert.deepEqual(registry.transitions(R), []);
    assert.deepEqual(registry.artifacts(R), []);
    const [event, ...others] = registry.eventsSince(0, { runId: R, limit: 10 });
    assert.deepEqual(others, []);
    assert.deepEqual([event!.kind, event!.runName, JSON.parse(event!.dataJson).name], [
      "deleted",
      "gone",
      "gone",
    ]);
    assert.throws(() => registry.delete(R), hasCode("not_found"));

    const again = fixture.reopen();
    assert.equal(again.transitionHead(), 2);
    again.insert(newRun(2));
    assert.equal(again.transitionsSince(0, 10)[0]!.seq, 3);
  });
});

Deno.test("registry: an artifact's record is replaced by a newer look at the same file", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    const artifact = {
      runId: R,
      path: "checkpoints/a",
      kind: "checkpoint",
      bytes: 1,
      sha256: "x",
      step: null,
      windowId: "",
      at: 1,
    };
    registry.putArtifact(artifact);
    registry.putArtifact({ ...artifact, bytes: 2, step: 10 });
    assert.deepEqual(registry.artifacts(R), [{ ...artifact, bytes: 2, step: 10, deletedAt: null }]);
  });
});

Deno.test("heartbeats: seen at once, on disk every few seconds and when the registry closes", async () => {
  await withRegistry((fixture) => {
    const { registry } = fixture;
    registry.insert(newRun(1));
    registry.touchHeartbeat(R, 10_000);
    registry.touchHeartbeat(R, 11_000);
    registry.touchHeartbeat(R, 10_500);
    assert.equal(registry.require(R).lastHeartbeatAt, 11_000);
    assert.equal(registry.list({}, { limit: 1 }).runs[0]!.lastHeartbeatAt, 11_000);
    assert.equal(fixture.reopen().require(R).lastHeartbeatAt, 11_000);
  });
});
