import assert from "node:assert/strict";
import { EMPTY_EPISODE, type StepColumns } from "../../src/gen/records/record_types.ts";
import { DatabaseSync } from "node:sqlite";
import { batch, readAll, steps, withStore } from "./harness.ts";

const rich = (start: number, n: number): StepColumns =>
  steps(start, n, {
    reward: Array.from({ length: n }, (_, i) => i % 5 === 0 ? "NaN" : i - 3),
    terminated: Array.from({ length: n }, (_, i) => i % 2),
    truncated: Array.from({ length: n }, (_, i) => i % 3 === 0 ? 1 : 0),
    agentId: Array.from({ length: n }, (_, i) => `agent_${i % 3}`),
    workerId: "w-1",
    policyLabel: "p",
    backend: Array.from({ length: n }, (_, i) => i % 7 === 0 ? "" : "b"),
    renderHintJson: Array.from({ length: n }, (_, i) => i % 2 ? "" : '{"m":"é"}'),
    renderPayloadJson: Array.from({ length: n }, () => '{"mode":"grid"}'),
    frameRef: Array.from({ length: n }, (_, i) => `f${i}`),
    payloadVersion: Array.from({ length: n }, (_, i) => i % 4),
    episodeSeed: Array.from({ length: n }, (_, i) => i * 1e9),
    infoJson: Array.from({ length: n }, (_, i) => `{"loss":${i / 8},"tag":"x"}`),
  });

Deno.test("read: rows from memory and from SQLite are the same", () =>
  withStore((bench) => {
    for (let b = 0; b < 5; b++) {
      bench.store.ingest(
        "R",
        1 + (b >> 1),
        batch(b % 2 ? 100 : 0, b % 2 ? 200 : 100, {
          steps: rich(b * 50, 50),
          episodes: [{
            ...EMPTY_EPISODE,
            ...{
              episode: b,
              totalReward: b === 2 ? "Infinity" : -b,
              steps: 50,
              terminated: true,
              truncated: false,
            },
            ...{
              metadataJson: '{"seed":1}',
              tsNs: b === 3 ? "" : `170000000000000000${b}`,
              agentId: "a",
              workerId: "",
            },
          }],
          events: [{ kind: "heartbeat", dataJson: '{"status":"running"}', tsNs: "" }],
        }),
      );
    }
    const kinds = ["steps", "episodes", "events", "metrics"] as const;
    const fromMemory = kinds.map((kind) => readAll(bench.store, "R", kind, 7));
    bench.reopen();
    const fromDisk = kinds.map((kind) => readAll(bench.store, "R", kind, 9));
    assert.deepEqual(fromDisk, fromMemory);
    assert.deepEqual(fromDisk.map((rows) => rows.length), [250, 5, 5, 250]);
  }, { now: () => 1_750_000_000_123 }));

Deno.test("read: a reader that falls behind the ring gets the same contiguous log", () =>
  withStore(({ store }) => {
    for (let b = 0; b < 40; b++) {
      store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 25, 25) }));
    }
    const rows = readAll(store, "R", "steps", 33);
    assert.equal(rows.length, 1000);
    assert.deepEqual(rows.map((row) => row.observationJson), steps(0, 1000).observationJson);
    assert.deepEqual(store.read("R", "steps", 1000, 10), []);
    assert.deepEqual(store.read("R", "steps", 5000, 10), []);
    assert.deepEqual(store.read("R", "steps", 999, 10).map((row) => row.seq), [1000]);
  }, { ringSize: 64 }));

Deno.test("read: large rows come in chunks of about four megabytes, from memory and from disk", () =>
  withStore((bench) => {
    const large = Array.from({ length: 12 }, (_, i) => JSON.stringify("x".repeat(1_000_000) + i));
    bench.store.ingest("R", 1, batch(0, 1, { steps: { n: 12, observationJson: large } }));
    const check = () => {
      assert.ok(bench.store.read("R", "steps", 0, 100).length <= 4);
      assert.deepEqual(readAll(bench.store, "R", "steps").map((row) => row.observationJson), large);
    };
    check();
    bench.reopen();
    check();
  }));

Deno.test("read: below what is kept is out of range, and the message names the first seq", () =>
  withStore((bench) => {
    bench.store.ingest("R", 1, batch(0, 1, { steps: steps(0, 100) }));
    bench.store.close();
    const db = new DatabaseSync(bench.path);
    db.exec("DELETE FROM steps WHERE seq <= 40; UPDATE telemetry_runs SET first_step = 41");
    db.close();
    const store = bench.reopen();
    assert.throws(() => store.read("R", "steps", 39, 10), {
      code: "out_of_range",
      message: /from seq 41/,
    });
    assert.equal(store.read("R", "steps", 40, 10)[0]!.seq, 41);
  }));

Deno.test("waitBeyond: resolves at once, with the next row, or with the signal", () =>
  withStore(async ({ store }) => {
    const signal = new AbortController().signal;
    const waiting = store.waitBeyond("R", "steps", 0, signal);
    const beyond = new AbortController();
    let woken = false;
    const later = store.waitBeyond("R", "steps", 5, beyond.signal).then(() => woken = true);
    store.ingest("R", 1, batch(0, 1, { steps: steps(0, 3) }));
    await waiting;
    await store.waitBeyond("R", "steps", 2, signal);
    assert.equal(woken, false);
    beyond.abort();
    await later;
  }));

Deno.test("follow: a deletion ends every wait and tells every follower, not those of the next run of this id", () =>
  withStore(async ({ store }) => {
    const { signal } = new AbortController();
    store.ingest("R", 1, batch(0, 1, { steps: steps(0, 3) }));
    for (const runId of ["R", "said nothing"]) {
      using follower = store.follow(runId);
      using other = store.follow("S");
      const waits = (["steps", "episodes", "metrics"] as const).map((kind) =>
        store.waitBeyond(runId, kind, 1000, signal)
      );
      await store.delete(runId);
      await Promise.all(waits);
      assert.throws(() => follower.deleted.throwIfAborted(), {
        code: "not_found",
        message: `run ${runId} was deleted`,
      });
      assert.equal(other.deleted.aborted, false);
    }
    using next = store.follow("R");
    const first = store.waitBeyond("R", "steps", 0, signal);
    store.ingest("R", 1, batch(0, 1, { steps: steps(0, 1) }));
    await first;
    assert.equal(next.deleted.aborted, false);
    assert.deepEqual(store.read("R", "steps", 0, 9).map((row) => row.seq), [1]);
  }));

Deno.test("views: people with sqlite3 find rows by the run's id", () =>
  withStore((bench) => {
    bench.store.ingest("R", 1, batch(0, 1, { steps: rich(0, 4) }));
    bench.store.ingest("S", 1, batch(0, 1, { steps: steps(0, 2), episodes: [], events: [] }));
    const db = new DatabaseSync(bench.path, { readOnly: true });
    const row = db.prepare(
      "SELECT seq, agent_id, worker_id, timestamp, reward FROM run_steps WHERE run_id = 'R' AND seq = 2",
    ).get();
    db.close();
    assert.deepEqual({ ...row }, {
      ...{
        seq: 2,
        agent_id: "agent_1",
        worker_id: "w-1",
        timestamp: "2023-11-14T22:13:20.001Z",
        reward: -2,
      },
    });
  }));
