/** Memory of the thread that moves the write-ahead log into the database. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { Checkpoints } from "../../src/telemetry/commit/checkpoints.ts";

Deno.test("checkpoints: thousands of them in the thread use no more memory than hundreds", async () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/t.sqlite`;
  const db = new DatabaseSync(path);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE t (n INTEGER)");
  const checkpoints = new Checkpoints(db, path, {
    warn: (message) => {
      throw new Error(message);
    },
  });
  const insert = db.prepare("UPDATE t SET n = n + 1");
  db.exec("INSERT INTO t VALUES (0)");
  const make = async (count: number) => {
    for (let i = 0; i < count; i++) {
      insert.run();
      await checkpoints.run();
      assert.equal(checkpoints.walBytes(), 0);
    }
    return Deno.memoryUsage().rss;
  };
  try {
    const before = await make(400);
    const after = await make(1500);
    // A statement that is prepared for each and never freed takes 3 KiB.
    assert.ok(
      after - before < 6 << 20,
      `${((after - before) / (1 << 20)).toFixed(1)} MiB for 1500 checkpoints`,
    );
  } finally {
    checkpoints.close();
    db.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
