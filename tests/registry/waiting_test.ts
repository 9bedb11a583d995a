import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { Registry } from "../../src/registry/registry.ts";
import { Waiters } from "../../src/registry/waiters.ts";
import { migrate } from "../../src/registry/migrations.ts";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

Deno.test("waiting: thousands park for the next transition and all see it when it is committed", async () => {
  await withRegistry(async ({ registry }) => {
    const { signal } = new AbortController();
    const seen: number[] = [];
    const parked = Array.from({ length: 3000 }, async () => {
      await registry.waitTransitionsBeyond(0, signal);
      seen.push(registry.transitionsSince(0, 1)[0]!.seq);
    });
    const events = registry.waitEventsBeyond(0, signal);
    assert.deepEqual(seen, []);
    registry.insert(newRun(1));
    await Promise.all(parked);
    await events;
    assert.equal(seen.length, 3000);
    assert.ok(seen.every((seq) => seq === 1));
  });
});

Deno.test("waiting: one that is behind does not wait; one that aborts is let go", async () => {
  await withRegistry(async ({ registry }) => {
    registry.insert(newRun(1));
    const abort = new AbortController();
    await registry.waitTransitionsBeyond(0, abort.signal);
    const waiting = registry.waitTransitionsBeyond(1, abort.signal);
    abort.abort();
    await waiting;
    await registry.waitEventsBeyond(5, abort.signal);
  });
});

Deno.test("waiting: closing the registry lets everybody go", async () => {
  await withRegistry(async (fixture) => {
    const waiting = fixture.registry.waitEventsBeyond(0, new AbortController().signal);
    fixture.reopen();
    await waiting;
  });
});

Deno.test("waiting: only those whose place was passed are woken, and nothing of them is kept", async () => {
  const waiters = new Waiters();
  const { signal } = new AbortController();
  const near = waiters.wait(3, 3, signal);
  const far = waiters.wait(10, 3, signal);
  assert.equal(waiters.size, 2);
  waiters.wake(4);
  await near;
  assert.equal(waiters.size, 1);
  waiters.wakeAll();
  await far;
  assert.equal(waiters.size, 0);
});

/** A registry whose database may grow to so many pages only: what SQLite does on a full disk. */
function withFullDisk(work: (registry: Registry, db: DatabaseSync) => void): void {
  const db = new DatabaseSync(":memory:");
  migrate(db, "registry.db");
  const registry = new Registry(db, "registry.db");
  registry.insert(newRun(1));
  const pages = Number(db.prepare("PRAGMA page_count").get()!.page_count);
  db.exec(`PRAGMA max_page_count = ${pages}`);
  try {
    work(registry, db);
  } finally {
    registry.close();
  }
}

Deno.test("disk full: nothing is half written, nobody is woken, and work goes on when space returns", () => {
  withFullDisk((registry, db) => {
    const heads = [registry.transitionHead(), registry.eventHead()];
    const big = "x".repeat(200_000);
    assert.throws(
      () => registry.insert(newRun(2, { configJson: big })),
      hasCode("unavailable", /disk is full/),
    );
    assert.throws(
      () => registry.apply(runId(1), { type: "spawned" }, { resumeFrom: big }),
      hasCode("unavailable", /disk is full/),
    );
    assert.throws(
      () => registry.appendEvent(runId(1), "artifact", { big }),
      hasCode("unavailable"),
    );
    assert.equal(registry.get(runId(2)), undefined);
    assert.equal(registry.require(runId(1)).state, "INIT");
    assert.deepEqual([registry.transitionHead(), registry.eventHead()], heads);
    assert.equal(registry.transitionsSince(0, 10).length, 1);

    db.exec("PRAGMA max_page_count = 100000");
    registry.insert(newRun(2, { configJson: big }));
    assert.equal(registry.apply(runId(1), { type: "spawned" }).state, "HANDSHAKE");
    assert.deepEqual(registry.transitionsSince(heads[0]!, 10).map((t) => t.runId), [
      runId(2),
      runId(1),
    ]);
  });
});

Deno.test("locked: a database that another program holds is unavailable until it lets go; heartbeats do not mind", async () => {
  await withRegistry(({ registry, path, clock }) => {
    registry.insert(newRun(1));
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    try {
      assert.throws(() => registry.insert(newRun(2)), hasCode("unavailable", /locked/));
      registry.touchHeartbeat(runId(1), clock.now);
      assert.equal(registry.require(runId(1)).lastHeartbeatAt, clock.now);
    } finally {
      other.exec("ROLLBACK");
      other.close();
    }
    registry.insert(newRun(2));
  });
});

Deno.test("durability: full syncs every commit, normal leaves that to the checkpoint", async () => {
  for (const [durability, level] of [["normal", 1], ["full", 2]] as const) {
    const { openDatabase } = await import("../../src/registry/sqlite.ts");
    const directory = Deno.makeTempDirSync();
    const db = openDatabase(`${directory}/a.db`, durability);
    assert.equal(db.prepare("PRAGMA synchronous").get()!.synchronous, level);
    assert.equal(db.prepare("PRAGMA journal_mode").get()!.journal_mode, "wal");
    db.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
