/** Batches of several runs in one transaction. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { TelemetryStore } from "../../src/telemetry/store.ts";
import type { IngestResult } from "../../src/records/stored.ts";
import { CommitPace, LONGEST_WAIT_MS } from "../../src/telemetry/commit/commit_pace.ts";
import { until } from "../harness/wait.ts";
import { batch, readAll, steps, withStore } from "./harness.ts";

/**
 * Commits in a write-ahead log that was never begun anew: frames that say how large the database
 * is.
 */
function commitsIn(path: string): number {
  const log = Deno.readFileSync(`${path}-wal`);
  const view = new DataView(log.buffer);
  const frame = 24 + view.getUint32(8);
  let commits = 0;
  for (let at = 32; at + frame <= log.length; at += frame) {
    if (view.getUint32(at + 4) !== 0) commits++;
  }
  return commits;
}

const RUNS = ["A", "B", "C", "D"];

Deno.test("group: what small batches of several runs bring together is one commit, acknowledged after it", () =>
  withStore(async ({ store, path }) => {
    for (const run of RUNS) store.ingest(run, 1, batch(0, 50, { steps: steps(0, 1) }));
    const before = commitsIn(path);
    const reader = new DatabaseSync(path, { readOnly: true });
    const committed = reader.prepare("SELECT sum(steps) AS n FROM telemetry_runs");
    const results: IngestResult[] = [];
    const rounds = 20;
    let delivered = RUNS.length;
    for (let round = 1; round <= rounds; round++) {
      await Promise.all(RUNS.map(async (run) => {
        const result = await store.deliver(
          run,
          1,
          batch(50 * round, 50 * (round + 1), { steps: steps(round, 1) }),
        );
        results.push(result);
        delivered++;
        assert.ok(
          (committed.get() as { n: number }).n >= delivered,
          "acknowledged, and not committed",
        );
      }));
    }
    reader.close();
    assert.ok(results.every(({ type }) => type === "stored"));
    const commits = commitsIn(path) - before;
    // The first are paid for by what was saved up, each by itself.
    assert.ok(
      commits <= rounds + 3 * RUNS.length,
      `${commits} commits for ${results.length} batches`,
    );
    for (const run of RUNS) assert.equal(readAll(store, run, "steps").length, rounds + 1);
  }, { checkpoints: { mode: "inline", limitBytes: 1 << 30 } }));

Deno.test("group: several batches of one run are stored in order, and a repeated one is a duplicate", () =>
  withStore(async ({ store }) => {
    const event = { kind: "saved", dataJson: "{}", tsNs: "" };
    const results = await Promise.all([
      store.deliver("A", 1, batch(0, 10, { steps: steps(0, 1), events: [event] })),
      store.deliver("A", 1, batch(10, 20, { steps: steps(1, 1), events: [event, event] })),
      store.deliver("A", 1, batch(10, 20, { steps: steps(1, 1) })),
      store.deliver("A", 1, batch(30, 40, { steps: steps(3, 1) })),
    ]);
    assert.deepEqual(results.map(({ type, position }) => [type, position]), [
      ["stored", 10],
      ["stored", 20],
      ["duplicate", 20],
      ["gap", 20],
    ]);
    assert.deepEqual(results.slice(0, 2).map((one) => one.type === "stored" && one.lastEvent), [
      1,
      3,
    ]);
    assert.equal(store.head("A", "steps"), 2);
  }));

Deno.test("group: a batch that cannot be stored fails no other, nor is any of it left", () =>
  withStore(async ({ store, path }) => {
    for (const run of RUNS) store.ingest(run, 1, batch(0, 1, { steps: steps(0, 1) }));
    await useUpTheSavings(store);
    const db = new DatabaseSync(path);
    db.exec(
      "CREATE TRIGGER refuse BEFORE INSERT ON episodes BEGIN SELECT RAISE(ABORT, 'no such episode'); END",
    );
    const episode = {
      episode: 1,
      totalReward: 1,
      steps: 1,
      terminated: true,
      truncated: false,
      metadataJson: "",
    };
    const bad = batch(1, 2, {
      steps: steps(1, 2),
      episodes: [{ ...episode, tsNs: "", agentId: "", workerId: "" }],
    });
    const outcomes = await Promise.allSettled([
      store.deliver("A", 1, batch(1, 2, { steps: steps(1, 1) })),
      store.deliver("B", 1, bad),
      store.deliver("C", 1, batch(1, 2, { steps: steps(1, 1) })),
      store.deliver("A", 1, batch(2, 3, { steps: steps(2, 1) })),
    ]);
    assert.deepEqual(outcomes.map(({ status }) => status), [
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
    ]);
    assert.deepEqual(RUNS.map((run) => store.head(run, "steps")), [3, 1, 2, 1]);
    assert.equal(store.summary("B").journalPosition, 1);
    db.exec("DROP TRIGGER refuse");
    db.close();
    assert.equal((await store.deliver("B", 1, batch(1, 2, { steps: steps(1, 2) }))).type, "stored");
    assert.equal(readAll(store, "B", "steps").length, 3);
  }));

/** Until a small batch waits for others. */
async function useUpTheSavings(store: TelemetryStore): Promise<void> {
  for (let i = 0;; i++) {
    const delivered = store.deliver("saver", 1, batch(i, i + 1, { steps: steps(i, 1) }));
    const waits = store.head("saver", "steps") === i;
    await delivered;
    if (waits) return;
  }
}

Deno.test("group: the log stays within its bound beside slow workers' many small commits", () => {
  const limitBytes = 1 << 20;
  return withStore(async ({ store, path }) => {
    let longest = 0;
    for (let i = 0; i < 600; i++) {
      await Promise.all(RUNS.map((run) => {
        const stored = store.deliver(run, 1, batch(i, i + 1, { steps: steps(i, 1) }));
        store.commitWaiting();
        return stored;
      }));
      longest = Math.max(longest, Deno.statSync(`${path}-wal`).size);
    }
    // 2400 commits of some 20 KB; a commit or two may come between the look and the checkpoint.
    assert.ok(longest < 1.25 * limitBytes, `${longest} bytes`);
  }, { checkpoints: { mode: "inline", limitBytes } });
});

Deno.test("group: commits of a flood wait for the checkpoint when the log has its full size", () => {
  const limitBytes = 2 << 20;
  return withStore(async ({ store, path }) => {
    let longest = 0;
    const observationJson = Array.from(
      { length: 500 },
      (_, i) => JSON.stringify("x".repeat(500) + i),
    );
    for (let i = 0; i < 200; i++) {
      await store.deliver(
        "A",
        1,
        batch(i * 300_000, (i + 1) * 300_000, { steps: { n: 500, observationJson } }),
      );
      longest = Math.max(longest, Deno.statSync(`${path}-wal`).size);
    }
    assert.ok(longest < 2 * limitBytes, `${longest} bytes`);
    assert.equal(store.head("A", "steps"), 100_000);
    await until(() => Deno.statSync(`${path}-wal`).size < limitBytes, { what: "a short log" });
  }, { checkpoints: { limitBytes } });
});

Deno.test("pace: a line now and then and a large batch do not wait; many small ones do, and not for long", () => {
  const step = 20_000;
  const pace = new CommitPace(0, 4096);
  // 5 commits in three seconds of one run.
  for (let now = 0; now < 20_000; now += 600) {
    assert.equal(pace.waitMs(now, now, 60), 0, `at ${now}`);
    pace.committed(now, 60, 1);
  }
  // 200 a second.
  let commits = 0;
  let since = 20_000;
  for (let now = 20_000; now < 30_000; now += 5) {
    const wait = pace.waitMs(now, since, 60);
    assert.ok(wait <= LONGEST_WAIT_MS);
    if (wait > 0) continue;
    pace.committed(now, 60 * (now - since) / 5, 4);
    since = now;
    commits++;
  }
  assert.ok(commits < 100, `${commits} commits, of ${10_000 / 5} batches`);
  assert.equal(pace.waitMs(30_000, 30_000, 10 * step), 0, "a large one");
});

Deno.test("group: a batch of a shape that nobody can weigh keeps no other from being acknowledged", () =>
  withStore(async ({ store }) => {
    for (const run of RUNS) store.ingest(run, 1, batch(0, 50, { steps: steps(0, 1) }));
    const odd = store.deliver("A", 1, batch(50, 60, { episodes: [null as never] }));
    const good = store.deliver("B", 1, batch(50, 60, { steps: steps(1, 1) }));
    store.commitWaiting();
    await assert.rejects(odd);
    assert.equal((await good).type, "stored");
    assert.equal(readAll(store, "B", "steps").length, 2);
  }));
