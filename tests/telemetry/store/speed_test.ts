/** A guard against losing the store's speed: a ratio to the machine's own, of processor time, with a wide margin. */
import assert from "node:assert/strict";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { TelemetryStore } from "../../../src/telemetry/store.ts";
import { batch, steps } from "./harness.ts";

const ROWS = 1024;
const BATCHES = 16;

function processorTime(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

Deno.test("speed: storing a step costs no more than a few times what a plain insert of its row does", () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-store-" });
  const store = TelemetryStore.open(`${directory}/telemetry.sqlite`, { checkpoints: { mode: "inline" } });
  const raw = new DatabaseSync(`${directory}/raw.sqlite`);
  try {
    raw.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    raw.exec(
      `CREATE TABLE steps (run INTEGER, seq INTEGER, episode INTEGER, step INTEGER, reward REAL, ts TEXT, agent TEXT,
        action TEXT, observation TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID`,
    );
    const insert = raw.prepare("INSERT INTO steps VALUES (1, ?, ?, ?, ?, ?, 'agent_1', ?, ?)");
    let position = 0;
    const storing: number[] = [];
    const inserting: number[] = [];
    for (let b = 0; b < BATCHES; b++) {
      const columns = steps(b * ROWS, ROWS);
      const { episode, step, reward, tsNs, actionJson, observationJson } = columns;
      inserting.push(processorTime(() => {
        raw.exec("BEGIN");
        for (let i = 0; i < ROWS; i++) {
          insert.run(
            ...[b * ROWS + i, episode![i]!, step![i]!, reward![i]!, tsNs![i]!, actionJson![i]!, observationJson![i]!],
          );
        }
        raw.exec("COMMIT");
      }));
      storing.push(processorTime(() => store.ingest("R", 1, batch(position, position += ROWS, { steps: columns }))));
    }
    assert.equal(store.head("R", "steps"), BATCHES * ROWS);
    const ratio = Math.min(...storing) / Math.min(...inserting);
    assert.ok(ratio < 4, `a stored step costs ${ratio.toFixed(2)} plain inserts (it was about 0.9)`);
  } finally {
    raw.close();
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
