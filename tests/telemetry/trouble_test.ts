import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { yieldToOthers } from "../../src/base/time/sleep.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { until } from "../harness/wait.ts";
import { batch, readAll, steps, withStore } from "./harness.ts";

/** They hardly get smaller by being compressed: what is deleted leaves room for what comes. */
const LINES = Array.from(
  { length: 1000 },
  () => JSON.stringify(crypto.getRandomValues(new Uint8Array(250)).toHex()),
);
const text = (n: number) => LINES.slice(0, n);

Deno.test("disk full: unavailable with nothing stored, and work goes on when space returns", () =>
  withStore(async ({ store }) => {
    store.ingest("old", 1, batch(0, 1, { steps: { n: 1000, observationJson: text(1000) } }));
    const stored = [];
    let from = 0;
    for (;;) {
      try {
        store.ingest(
          "R",
          1,
          batch(from, from + 1, { steps: { n: 200, observationJson: text(200) } }),
        );
        stored.push(...text(200));
        from++;
      } catch (error) {
        assert.equal((error as { code: string }).code, "unavailable");
        assert.match((error as Error).message, /disk is full/);
        break;
      }
    }
    assert.equal(store.writable(), false);
    assert.equal(store.summary("R").journalPosition, from);
    assert.deepEqual(readAll(store, "R", "steps").map((row) => row.observationJson), stored);
    await store.delete("old");
    assert.equal(
      store.ingest("R", 1, batch(from, from + 1, { steps: { n: 200, observationJson: text(200) } }))
        .type,
      "stored",
    );
    assert.equal(store.writable(), true);
    assert.equal(readAll(store, "R", "steps").length, stored.length + 200);
  }, { maxBytes: 2 * 1024 * 1024 }));

Deno.test("open: a file that is no database, a newer schema and a missing directory say what to do", () =>
  withStore((bench) => {
    bench.store.close();
    const open = (path: string) => () => TelemetryStore.open(path);
    const bad = `${bench.path}.bad`;
    Deno.writeTextFileSync(bad, "no database ".repeat(1000));
    assert.throws(open(bad), {
      code: "unavailable",
      message: /is not an SQLite database/,
      hint: /doctor --repair/,
    });
    assert.throws(open(`${bench.path}-none/x.sqlite`), {
      code: "unavailable",
      hint: /directory exists/,
    });
    const db = new DatabaseSync(bench.path);
    db.exec("PRAGMA user_version = 99");
    db.close();
    assert.throws(open(bench.path), { code: "failed_precondition", message: /schema 99/ });
  }));

Deno.test("open: a corrupt page is named as such", () =>
  withStore((bench) => {
    bench.store.ingest("R", 1, batch(0, 1, { steps: steps(0, 500) }));
    bench.store.close();
    const file = Deno.openSync(bench.path, { write: true });
    const { size } = file.statSync();
    file.seekSync(100, Deno.SeekMode.Start);
    const junk = new Uint8Array(size - 100).fill(0x5a);
    for (let done = 0; done < junk.length;) done += file.writeSync(junk.subarray(done));
    file.close();
    assert.throws(() => TelemetryStore.open(bench.path), {
      code: "unavailable",
      message: /is corrupt|is not an SQLite database/,
    });
  }));

Deno.test("delete: rows, series and space go, other runs stay, and the id may be used anew", () =>
  withStore(async (bench) => {
    const { store } = bench;
    store.ingest("keep", 1, batch(0, 1, { steps: steps(0, 50) }));
    for (let b = 0; b < 10; b++) {
      store.ingest(
        "R",
        1,
        batch(b, b + 1, {
          steps: {
            n: 500,
            observationJson: text(500),
            infoJson: text(500).map((_, i) => `{"loss":${i}}`),
          },
          events: [{ kind: "x", dataJson: "{}", tsNs: "" }],
        }),
      );
    }
    const before = store.fileBytes();
    await store.delete("R");
    await store.delete("R");
    assert.ok(store.fileBytes() < before / 4, `${store.fileBytes()} of ${before} bytes left`);
    assert.equal(store.head("R", "steps"), 0);
    assert.deepEqual(store.listSeries("R"), []);
    assert.equal(readAll(store, "keep", "steps").length, 50);
    store.ingest("R", 1, batch(0, 1, { steps: steps(0, 2) }));
    assert.equal(readAll(bench.reopen(), "R", "steps").length, 2);
  }));

Deno.test("delete: cut short by a restart, it goes on by itself", () =>
  withStore(async (bench) => {
    for (let b = 0; b < 10; b++) {
      bench.store.ingest(
        "R",
        1,
        batch(b, b + 1, { steps: { n: 1000, observationJson: text(1000) } }),
      );
    }
    const deleting = bench.store.delete("R");
    bench.reopen();
    await deleting;
    const db = new DatabaseSync(bench.path, { readOnly: true });
    const left = db.prepare(
      "SELECT (SELECT count(*) FROM telemetry_runs) + (SELECT count(*) FROM steps) AS n",
    );
    await until(() => left.get()!.n === 0, {
      what: "the rows to be gone",
      state: () => left.get(),
    });
    db.close();
  }));

for (const mode of ["worker", "inline"] as const) {
  Deno.test(`checkpoints (${mode}): the write-ahead log stays short while rows come and readers read`, () =>
    withStore(async (bench) => {
      const limit = 1024 * 1024;
      const { store, path } = bench;
      const reader = new DatabaseSync(path, { readOnly: true });
      const wal = () => Deno.statSync(`${path}-wal`).size;
      let b = 0;
      // Much more than the limit is written; then the log must become short while writing goes on.
      await until(async () => {
        for (let more = 0; more < 20; more++) {
          store.ingest("R", 1, batch(b, b + 1, { steps: { n: 500, observationJson: text(500) } }));
          b++;
          reader.prepare("SELECT count(*) FROM telemetry_runs").get();
          await yieldToOthers();
        }
        return b * 500 * 500 > 8 * limit && wal() < 2 * limit;
      }, { what: "a short log", state: wal });
      reader.close();
      assert.equal(store.head("R", "steps"), b * 500);
    }, { checkpoints: { mode, limitBytes: 1024 * 1024 } }));
}

Deno.test("checkpoints: a foreign snapshot lets the log grow, which is told once a doubling; our cursors do not", () => {
  const warnings: string[] = [];
  const limitBytes = 256 * 1024;
  return withStore(async (bench) => {
    const { store, path } = bench;
    const wal = () => Deno.statSync(`${path}-wal`).size;
    let b = 0;
    const write = () =>
      store.ingest("R", 1, batch(b, ++b, { steps: { n: 500, observationJson: text(500) } }));
    const cursors = Array.from({ length: 20 }, () => 0);
    for (let round = 0; round < 60; round++) {
      write();
      // Each a little further, all of them far behind.
      cursors.forEach((since, c) =>
        cursors[c] = store.read("R", "steps", since, 7).at(-1)?.seq ?? since
      );
    }
    assert.ok(wal() < 3 * limitBytes, `${wal()} bytes beside cursors`);
    assert.deepEqual(warnings, []);
    const foreign = new DatabaseSync(path, { readOnly: true });
    try {
      foreign.exec("BEGIN");
      foreign.prepare("SELECT count(*) FROM telemetry_runs").get();
      await until(() => {
        write();
        return warnings.length > 0;
      }, { what: "a word of the growing log" });
      assert.match(warnings[0]!, /telemetry\.sqlite-wal has \d+ MiB and cannot be emptied/);
      const told = wal();
      while (wal() < 1.5 * told) write();
      assert.equal(warnings.length, 1);
    } finally {
      foreign.close();
    }
    await until(() => {
      write();
      return wal() < 3 * limitBytes;
    }, { what: "a short log again" });
  }, {
    checkpoints: { mode: "inline", limitBytes, warn: (message) => void warnings.push(message) },
  });
});
