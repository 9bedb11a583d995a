/** Space kept for a full disk. */
import assert from "node:assert/strict";
import { reserveAt } from "../../../src/os/files/reserve.ts";
import { DatabaseSync } from "node:sqlite";
import { migrate, MIGRATIONS } from "../../../src/registry/migrations.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { newRun } from "../../registry/fixture.ts";
import { TelemetryStore } from "../../../src/telemetry/store.ts";
import { batch, steps } from "../../telemetry/harness.ts";
import { diskTest } from "./small_disk.ts";

/** A text that hardly gets smaller. */
function noise(): string {
  return JSON.stringify(btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(750)))));
}

diskTest(
  "reserve: a sixteenth of a small disk, really taken, given back, and kept in part where there is too little",
  (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "16m");
    const reserve = reserveAt(`${disk.path}/reserve`, 16 << 20);
    const { bytes } = reserve;
    assert.equal(bytes, 1 << 20);
    const free = disk.freeBytes;
    assert.equal(reserve.make(), true);
    assert.ok(reserve.whole && disk.freeBytes <= free - bytes);
    disk.fill();
    reserve.release();
    assert.ok(!reserve.whole && disk.freeBytes >= bytes);
    disk.fill(bytes / 2);
    assert.equal(reserve.make(), false);
    assert.ok(!reserve.whole && !reserve.fits);
    disk.fill();
    reserve.release();
    assert.ok(disk.freeBytes >= bytes / 2 - (80 << 10), "what there was is kept from others");
    assert.equal(reserve.make(), false);
    disk.free();
    assert.equal(reserve.make(), true);
  },
);

diskTest(
  "a store on a disk filled to the last byte: its log is moved with the reserve's help, which is whole again",
  async (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "16m");
    const reserve = reserveAt(`${disk.path}/reserve`, 16 << 20);
    const store = TelemetryStore.open(`${disk.path}/t.sqlite`, {
      reserve,
      checkpoints: { mode: "inline" },
    });
    try {
      // One run's few pages again and again: a log of many times what the database grows by.
      let stored = 0;
      const store1 = () =>
        store.ingest("R", 1, batch(stored, ++stored, { steps: steps(stored, 1) }));
      for (let i = 0; i < 20; i++) store1();
      disk.fill();
      for (let i = 0; i < 200; i++) store1();
      assert.equal(store.head("R", "steps"), 220);
      assert.ok(reserve.whole);
      assert.equal(store.writable(), true);
      // What does not fit is refused, and a deletion is not.
      const large = { n: 4000, observationJson: Array.from({ length: 4000 }, noise) };
      assert.throws(() => store.ingest("L", 1, batch(0, 1, { steps: large })), {
        code: "unavailable",
        message: /disk is full/,
      });
      await store.delete("R");
      assert.equal(store.head("R", "steps"), 0);
      disk.free();
      assert.equal(store.ingest("L", 1, batch(0, 1, { steps: large })).type, "stored");
    } finally {
      store.close();
    }
  },
);

function makeOldestRegistry(path: string): void {
  const db = new DatabaseSync(path);
  db.exec("PRAGMA journal_mode = WAL");
  migrate(db, path, MIGRATIONS.slice(0, 1));
  db.close();
}

diskTest(
  "a registry of an older version on a full disk: its migration takes the reserve's space",
  (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "16m");
    const path = `${disk.path}/registry.db`;
    makeOldestRegistry(path);
    const reserve = reserveAt(`${disk.path}/reserve`, 16 << 20);
    assert.ok(reserve.make());
    disk.fill();
    const registry = Registry.open(path, { reserve });
    assert.equal(registry.count({}), 0);
    registry.close();
    const db = new DatabaseSync(path, { readOnly: true });
    assert.equal(
      Number(db.prepare("PRAGMA user_version").get()!.user_version),
      MIGRATIONS.at(-1)!.version,
    );
    db.close();
  },
);

diskTest(
  "a replaced registry on a full disk: nothing half copied stays, and it is saved with room",
  (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "16m");
    const path = `${disk.path}/registry.db`;
    const registry = Registry.open(path);
    try {
      for (let n = 1; n <= 100; n++) {
        registry.insert(
          newRun(n, { configJson: JSON.stringify({ noise: noise().repeat(10) }) }),
          null,
        );
      }
      Deno.renameSync(path, `${path}.other`);
      Deno.writeTextFileSync(path, "");
      const names = () =>
        [...Deno.readDirSync(disk.path)].map(({ name }) => name).filter((name) =>
          !/filler/.test(name)
        );
      disk.fill(200 << 10);
      const before = names();
      for (let n = 0; n < 3; n++) assert.throws(() => registry.insert(newRun(200), null));
      assert.deepEqual(names(), before);
      disk.free();
      assert.throws(() => registry.insert(newRun(200), null), {
        code: "unavailable",
        message: /It is saved as/,
      });
      const saved = names().filter((name) => !before.includes(name));
      assert.equal(saved.length, 1);
      const db = new DatabaseSync(`${disk.path}/${saved[0]}`, { readOnly: true });
      assert.equal(Number(db.prepare("SELECT count(*) AS n FROM runs").get()!.n), 100);
      db.close();
    } finally {
      registry.close();
    }
  },
);

diskTest(
  "a migration on a disk filled to the last byte, without a reserve: refused, nothing half done, and done with room",
  (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "16m");
    const registryDb = `${disk.path}/registry.db`;
    makeOldestRegistry(registryDb);
    const telemetryDb = `${disk.path}/telemetry.sqlite`;
    const made = TelemetryStore.open(telemetryDb, { checkpoints: { mode: "inline" } });
    made.ingest("R", 1, batch(0, 1, { steps: steps(0, 5) }));
    made.close();
    const newest = (path: string) => {
      const db = new DatabaseSync(path);
      try {
        return Number(db.prepare("PRAGMA user_version").get()!.user_version);
      } finally {
        db.close();
      }
    };
    const telemetryVersion = newest(telemetryDb);
    const before = new DatabaseSync(telemetryDb);
    for (
      const table of [
        ...[
          "steps",
          "episodes",
          "worker_events",
          "metrics",
          "series_buckets",
          "sources",
          "journal_positions",
        ],
        ...["series", "series_starts", "parameters", "source_cursors"],
      ]
    ) {
      before.exec(`ALTER TABLE ${table} DROP COLUMN crc`);
    }
    before.exec("ALTER TABLE series DROP COLUMN copy_of");
    before.exec("ALTER TABLE telemetry_runs DROP COLUMN told_reward");
    before.exec("ALTER TABLE telemetry_runs DROP COLUMN told_reward_name");
    before.exec("ALTER TABLE telemetry_runs DROP COLUMN crc");
    before.exec(`PRAGMA user_version = ${telemetryVersion - 6}`);
    before.close();
    disk.fill();
    const open = {
      [registryDb]: () => Registry.open(registryDb),
      [telemetryDb]: () => TelemetryStore.open(telemetryDb),
    };
    for (const [path, opened] of Object.entries(open)) {
      assert.throws(
        () => opened().close(),
        (error: Error) => /the disk is full/.test(error.message),
        path,
      );
    }
    disk.free();
    assert.deepEqual([newest(registryDb), newest(telemetryDb)], [1, telemetryVersion - 6]);
    for (const opened of Object.values(open)) opened().close();
    assert.deepEqual([newest(registryDb), newest(telemetryDb)], [
      MIGRATIONS.at(-1)!.version,
      telemetryVersion,
    ]);
    const store = TelemetryStore.open(telemetryDb, { checkpoints: { mode: "inline" } });
    assert.equal(store.read("R", "steps", 0, 10).length, 5);
    store.close();
  },
);
