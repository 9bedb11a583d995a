/** The trash: for everybody as if the runs were deleted, and back as they were. */
import assert from "node:assert/strict";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

const ids = (runs: readonly { runId: string }[]) => runs.map((run) => run.runId);

Deno.test("trash: no list, count, name, event or filter knows the run, and restore brings all of it back", async () => {
  await withRegistry(({ registry, clock, reopen }) => {
    const parameters = (name: string) => [{ name, value: "1", source: "config" }];
    registry.insert(newRun(1, { name: "kept" }), null, parameters("lr"));
    clock.now += 1;
    registry.insert(newRun(2, { name: "gone" }), null, parameters("gamma"));
    assert.throws(
      () => registry.trash(runId(2)),
      hasCode("failed_precondition", /INIT and cannot be deleted/),
    );
    registry.apply(runId(2), { type: "cancelled", reason: "user_cancel" });
    const before = registry.require(runId(2));
    const events = registry.eventsSince(0, { runId: runId(2), limit: 99 });
    clock.now += 1;
    assert.equal(registry.trash(runId(2)).deletedAt, clock.now);

    const again = reopen();
    assert.equal(again.get(runId(2)), undefined);
    assert.deepEqual(ids(again.list({}, { limit: 9 }).runs), [runId(1)]);
    assert.deepEqual(ids(again.outlines({})), [runId(1)]);
    assert.equal(again.count({}), 1);
    assert.deepEqual(again.parameterNames(), ["lr"]);
    assert.deepEqual(again.countByState(), { INIT: 1 });
    assert.equal(again.resolve("@last").runId, runId(1));
    for (const ref of ["gone", runId(2), runId(2).toLowerCase()]) {
      assert.throws(() => again.resolve(ref), (error) => {
        assert.match(String((error as { hint?: string }).hint), /in the trash: mosaic restore/);
        return hasCode("not_found")(error);
      });
    }
    assert.throws(() => again.update(runId(2), { notes: "x" }), hasCode("not_found"));
    assert.deepEqual(again.eventsSince(0, { runId: runId(2), limit: 99 }).map(({ kind }) => kind), [
      "trashed",
    ]);
    assert.ok(
      !again.eventsSince(0, { limit: 99 }).some((e) => e.runId === runId(2) && e.kind === "queued"),
    );
    assert.throws(() => again.insert(newRun(2)), hasCode("already_exists", /in the trash/));

    assert.deepEqual(ids(again.list({ deleted: true }, { limit: 9 }).runs), [runId(2)]);
    assert.equal(again.resolveDeleted("gone").runId, runId(2));
    assert.equal(again.resolveDeleted("@last").runId, runId(2));
    assert.throws(() => again.resolveDeleted("kept"), hasCode("not_found"));
    assert.throws(() => again.restore(runId(1)), hasCode("not_found"));

    assert.deepEqual(again.restore(runId(2)), before);
    assert.deepEqual(again.parameterNames(), ["gamma", "lr"]);
    const after = again.eventsSince(0, { runId: runId(2), limit: 99 });
    assert.deepEqual(after.slice(0, -1), events);
    assert.equal(after.at(-1)!.kind, "restored");
    assert.throws(() => again.resolveDeleted("@last"), hasCode("not_found", /empty/));
  });
});

Deno.test("trash: runs within a run go and come with it; one that was deleted alone stays there", async () => {
  await withRegistry(({ registry, clock }) => {
    registry.insert(newRun(1));
    for (const n of [2, 3]) {
      registry.insertChild({ ...newRun(n), parent: runId(1), childKey: `job ${n}` });
    }
    for (const n of [2, 3]) registry.apply(runId(n), { type: "exited_ok" });
    registry.apply(runId(1), { type: "cancelled", reason: "user_cancel" });
    registry.trash(runId(2));
    assert.deepEqual(ids(registry.list({ within: runId(1) }, { limit: 9 }).runs), [runId(3)]);
    clock.now += 1;
    registry.trash(runId(1));
    assert.deepEqual(ids(registry.list({ deleted: true }, { limit: 9 }).runs).sort(), [
      runId(1),
      runId(2),
    ]);
    for (const n of [2, 3]) {
      assert.throws(
        () => registry.restore(runId(n)),
        hasCode("failed_precondition", /within run .* in the trash/),
      );
    }
    registry.restore(runId(1));
    assert.deepEqual(ids(registry.list({ within: runId(1) }, { limit: 9 }).runs), [runId(3)]);
    registry.restore(runId(2));
    assert.equal(registry.count({ within: runId(1) }), 2);
  });
});
