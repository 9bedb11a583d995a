/**
 * A guard against losing the store's speed: a ratio to the machine's own, of processor time, with a
 * wide margin.
 */
import assert from "node:assert/strict";
import { processorSeconds } from "../../bench/measure.ts";
import { PlainInserts } from "../../bench/plain_inserts.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { batch, steps } from "./harness.ts";

const ROWS = 1024;
const BATCHES = 16;

Deno.test("speed: storing a step costs no more than a few times what a plain insert of its row does", () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-store-" });
  const store = TelemetryStore.open(`${directory}/telemetry.sqlite`, {
    checkpoints: { mode: "inline" },
  });
  const plain = new PlainInserts(`${directory}/raw.sqlite`);
  try {
    let position = 0;
    const storing: number[] = [];
    const inserting: number[] = [];
    for (let b = 0; b < BATCHES; b++) {
      const columns = steps(b * ROWS, ROWS);
      inserting.push(processorSeconds(() => plain.insert(columns)));
      storing.push(
        processorSeconds(() =>
          store.ingest("R", 1, batch(position, position += ROWS, { steps: columns }))
        ),
      );
    }
    assert.equal(store.head("R", "steps"), BATCHES * ROWS);
    const ratio = Math.min(...storing) / Math.min(...inserting);
    assert.ok(
      ratio < 4,
      `a stored step costs ${ratio.toFixed(2)} plain inserts (it was about 0.9)`,
    );
  } finally {
    plain[Symbol.dispose]();
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
