import assert from "node:assert/strict";
import { batch, steps, withStore } from "./harness.ts";

const METRICS = Array.from({ length: 200 }, (_, i) => ({
  kind: "metrics",
  tsNs: "1700000000000000000",
  dataJson: `{"step":${i},"loss":${1 / (i + 1)},"entropy":0.5}`,
}));

Deno.test("usage: a run's share is about what deleting it gives back", () =>
  withStore(async ({ store }) => {
    const texts = (n: number, length: number) =>
      Array.from({ length: n }, (_, i) => `"${String(i).padEnd(length)}"`);
    let at = 0;
    // As a daemon stores them: batches of several runs in turns.
    for (let i = 0; i < 20; i++) {
      at += 1000;
      const of = (parts: Parameters<typeof batch>[2]) => batch(at - 1000, at, parts);
      store.ingest("short", 1, of({ steps: steps(i * 500, 500) }));
      store.ingest(
        "long",
        1,
        of({ steps: steps(i * 500, 500, { observationJson: texts(500, 400) }) }),
      );
      // Beyond a page each.
      store.ingest(
        "frames",
        1,
        of({ steps: steps(i * 10, 10, { renderPayloadJson: texts(10, 20_000) }) }),
      );
      store.ingest("metrics", 1, of({ events: METRICS }));
    }
    const usage = await store.bytesOfRuns();
    assert.deepEqual([...usage.keys()].sort(), ["frames", "long", "metrics", "short"]);
    for (const [runId, bytes] of usage) {
      const freed = await store.delete(runId);
      assert.ok(
        bytes > freed * 0.7 && bytes < freed * 1.4,
        `${runId}: ${bytes} estimated, ${freed} given back`,
      );
    }
    assert.deepEqual(await store.bytesOfRuns(), new Map());
  }));

Deno.test("usage: shares add up to the database, whatever is in it", () =>
  withStore(async ({ store, path }) => {
    assert.deepEqual(await store.bytesOfRuns(), new Map());
    store.ingest("R", 1, batch(0, 10, { otherLines: 1 }));
    store.ingest("S", 1, batch(0, 10, { steps: steps(0, 3000) }));
    const usage = await store.bytesOfRuns();
    assert.ok(usage.get("S")! > usage.get("R")!);
    store.close();
    const total = [...usage.values()].reduce((a, b) => a + b, 0);
    assert.ok(
      Math.abs(total - Deno.statSync(path).size) <= 8192 * 2,
      `${total} of ${Deno.statSync(path).size}`,
    );
  }));
