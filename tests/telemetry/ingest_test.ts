import assert from "node:assert/strict";
import { EMPTY_EPISODE } from "../../src/gen/records/record_types.ts";
import { batch, readAll, steps, withStore } from "./harness.ts";

Deno.test("ingest: a batch is stored once, its repetition is a duplicate, a later one a gap", () =>
  withStore(({ store }) => {
    const first = batch(0, 100, { steps: steps(0, 10) });
    assert.deepEqual(store.ingest("R", 1, first), {
      type: "stored",
      position: 100,
      steps: 10,
      episodes: 0,
      events: [],
      lastEvent: 0,
    });
    assert.deepEqual(store.ingest("R", 1, first), { type: "duplicate", position: 100 });
    assert.deepEqual(store.ingest("R", 1, batch(150, 200)), { type: "gap", position: 100 });
    assert.deepEqual(store.ingest("R", 1, batch(50, 200)), { type: "gap", position: 100 });
    assert.equal(store.ingest("R", 1, batch(100, 200, { steps: steps(10, 5) })).type, "stored");
    assert.deepEqual(
      readAll(store, "R", "steps").map((row) => row.seq),
      Array.from({ length: 15 }, (_, i) => i + 1),
    );
    assert.equal(store.summary("R").journalPosition, 200);
  }));

Deno.test("ingest: the position and the numbering go on after a restart", () =>
  withStore((bench) => {
    bench.store.ingest(
      "R",
      1,
      batch(0, 100, { steps: steps(0, 40), otherLines: 2, violations: { "step: x": 1 } }),
    );
    const store = bench.reopen();
    assert.deepEqual(store.ingest("R", 1, batch(0, 100, { steps: steps(0, 40) })), {
      type: "duplicate",
      position: 100,
    });
    store.ingest(
      "R",
      1,
      batch(100, 150, { steps: steps(40, 3), malformedLines: 1, violations: { "step: x": 2 } }),
    );
    const { steps: count, otherLines, malformedLines, violations } = store.summary("R");
    assert.deepEqual([count, otherLines, malformedLines, violations], [43, 2, 1, { "step: x": 3 }]);
    assert.deepEqual(
      readAll(store, "R", "steps").map((row) => row.observationJson),
      steps(0, 43).observationJson,
    );
  }));

Deno.test("ingest: attempts have positions of their own, and late records of an earlier one are stored once", () =>
  withStore(({ store }) => {
    store.ingest("R", 1, batch(0, 100, { steps: steps(0, 2) }));
    store.ingest("R", 2, batch(0, 50, { steps: steps(0, 1) }));
    store.ingest("R", 1, batch(100, 120, { steps: steps(2, 1) }));
    assert.equal(store.ingest("R", 1, batch(100, 120, { steps: steps(2, 1) })).type, "duplicate");
    assert.deepEqual(readAll(store, "R", "steps").map((row) => [row.seq, row.attempt]), [
      ...[[1, 1], [2, 1], [3, 2], [4, 1]],
    ]);
    const { attempt, journalPosition } = store.summary("R");
    assert.deepEqual([attempt, journalPosition], [2, 50]);
  }));

Deno.test("ingest: positions that are no whole numbers are refused with their value", () =>
  withStore(({ store }) => {
    assert.throws(() => store.ingest("R", 1, batch(0, 1.5)), /to of a batch is 1\.5/);
    assert.throws(() => store.ingest("R", 1, batch(-1, 5)), /from of a batch is -1/);
    assert.equal(store.head("R", "steps"), 0);
  }));

Deno.test("ingest: what cannot be stored is replaced and counted, and the rest of its batch is stored", () =>
  withStore((bench) => {
    const odd = steps(0, 6, {
      episode: [-1, 1e300, 2.5, NaN, 4, 5],
      reward: ["NaN", "Infinity", -0, "-Infinity", 1, 2],
      tsNs: ["", "12x", "99999999999999999999", "007", "0", "1700000000000000001"],
      agentId: ["a\0b", "\ud800", "c", "c", "é", "🐉"],
    });
    // Columns of the wrong length and kind, as only a defective proxy sends them.
    odd.step = [1, 2];
    odd.payloadVersion = "x" as unknown as number[];
    bench.store.ingest("R", 1, batch(0, 10, { steps: odd }));
    const rows = readAll(bench.store, "R", "steps");
    assert.deepEqual(rows.map((row) => row.episode), [0, Number.MAX_SAFE_INTEGER, 2, 0, 4, 5]);
    assert.deepEqual(rows.map((row) => row.reward), [NaN, Infinity, 0, -Infinity, 1, 2]);
    assert.deepEqual(rows.map((row) => row.step), [1, 2, 0, 0, 0, 0]);
    assert.deepEqual(rows.map((row) => row.agentId), ["a\ufffdb", "\ufffd", "c", "c", "é", "🐉"]);
    assert.deepEqual(rows.slice(4).map((row) => row.tsNs), ["0", "1700000000000000001"]);
    assert.ok(Object.values(bench.store.summary("R").violations)[0]! > 0);
    assert.deepEqual(readAll(bench.reopen(), "R", "steps"), rows);
  }, { now: () => 1_800_000_000_000 }));

Deno.test("append: records without a journal become rows like any other", () =>
  withStore(({ store }) => {
    store.ingest("R", 1, batch(0, 10, { steps: steps(0, 3) }));
    const [step] = store.read("R", "steps", 1, 1);
    const { seq: _, attempt: __, ...record } = step!;
    store.append("R", 1, [{ ...record, agentId: "agent_2", terminated: true }], [{
      ...EMPTY_EPISODE,
      ...{
        episode: 1,
        totalReward: 3,
        steps: 5,
        terminated: true,
        truncated: false,
        metadataJson: "",
      },
      ...{ tsNs: "", agentId: "agent_2", workerId: "w" },
    }]);
    assert.deepEqual(store.read("R", "steps", 3, 10), [
      { ...step!, seq: 4, agentId: "agent_2", terminated: true },
    ]);
    const [episode] = store.read("R", "episodes", 0, 10);
    assert.deepEqual([episode!.agentId, episode!.workerId, episode!.totalReward], [
      "agent_2",
      "w",
      3,
    ]);
    assert.equal(store.summary("R").journalPosition, 10);
  }));

Deno.test("summary: zeros for a run that said nothing, mean reward over the last hundred episodes", () =>
  withStore((bench) => {
    assert.deepEqual(bench.store.summary("nobody").steps, 0);
    assert.equal(bench.store.summary("nobody").meanReward100, null);
    const episodes = Array.from({ length: 150 }, (_, i) => ({
      ...EMPTY_EPISODE,
      ...{
        episode: i,
        totalReward: i === 120 ? "NaN" : i,
        steps: 1,
        terminated: true,
        truncated: false,
      },
      ...{ metadataJson: "", tsNs: "", agentId: "a", workerId: "" },
    }));
    bench.store.ingest("R", 1, batch(0, 10, { episodes: episodes.slice(0, 90) }));
    const store = bench.reopen();
    store.ingest("R", 1, batch(10, 20, { episodes: episodes.slice(90) }));
    const last = episodes.slice(50).filter((e) => e.totalReward !== "NaN").map((e) =>
      e.totalReward as number
    );
    assert.equal(store.summary("R").meanReward100, last.reduce((a, b) => a + b) / last.length);
    assert.deepEqual(
      bench.reopen().summary("R"),
      store === bench.store ? store.summary("R") : bench.store.summary("R"),
    );
  }));
