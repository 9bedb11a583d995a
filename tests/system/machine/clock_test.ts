/** Wall clocks that are set back: order, numbers and waiting times do not depend on them. */
import assert from "node:assert/strict";
import { EngineFixture } from "../../harness/engine.ts";
import { configOf } from "../../harness/configs.ts";
import { newRun, runId, withRegistry } from "../../registry/fixture.ts";
import { batch, readAll, steps, withStore } from "../../telemetry/harness.ts";

const HOUR_MS = 3_600_000;

Deno.test("clock set back: the run submitted last is still @last, and transitions keep their order", () =>
  withRegistry(({ registry, clock }) => {
    registry.insert(newRun(1));
    clock.now -= HOUR_MS;
    registry.insert(newRun(2));
    assert.equal(registry.resolve("@last").runId, runId(2));
    registry.apply(runId(1), { type: "spawned" });
    clock.now -= HOUR_MS;
    registry.apply(runId(1), { type: "registered" });
    assert.deepEqual(registry.transitions(runId(1)).map(({ to }) => to), [
      "INIT",
      "HANDSHAKE",
      "READY",
    ]);
    assert.deepEqual(registry.transitionsSince(0, 10).map(({ seq }) => seq), [1, 2, 3, 4]);
  }));

Deno.test("clock set back: telemetry is numbered and given in the order of its arrival", () => {
  let now = 1_700_000_000_000;
  return withStore((bench) => {
    for (let b = 0; b < 5; b++, now -= HOUR_MS) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 10, 10) }));
    }
    const expected = Array.from({ length: 50 }, (_, i) => i + 1);
    assert.deepEqual(readAll(bench.store, "R", "steps").map(({ seq }) => seq), expected);
    assert.deepEqual(readAll(bench.reopen(), "R", "steps").map(({ seq }) => seq), expected);
  }, { now: () => now });
});

Deno.test("clock set back: a back-off is not longer than it was meant to be, and a living run does not time out", async () => {
  const real = Date.now;
  let back = 0;
  Date.now = () => real() - back;
  try {
    await using f = EngineFixture.start({ heartbeatTimeoutSeconds: 3600 });
    const config = (backoff_s: number) =>
      configOf({ command: ["/bin/true"], metadata: { restart: { max_attempts: 2, backoff_s } } });
    const living = f.engine.submit(config(1)).runId;
    const other = await f.connect(living);
    const { runId } = f.engine.submit(config(0.2));
    const first = await f.connect(runId);
    first.exit({ code: 3 });
    back = 24 * HOUR_MS;
    const second = await f.connect(runId, 2);
    // Back again: a day has gone by in an instant.
    back = 0;
    second.exit();
    await f.state(runId, "TERMINATED", 2);
    await other.steps(3);
    other.exit();
    await f.state(living, "TERMINATED", 1);
  } finally {
    Date.now = real;
  }
});
