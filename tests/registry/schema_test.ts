import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { eventConditions } from "../../src/registry/listing.ts";
import { migrate, MIGRATIONS, NewerSchemaError } from "../../src/registry/migrations.ts";
import { Registry } from "../../src/registry/registry.ts";
import { withSlurmDefaults } from "../../src/config/prepare.ts";
import { newRun, withRegistry } from "./fixture.ts";

const GOLDEN = new URL("./fixtures/schema.sql", import.meta.url);

function schemaOf(db: DatabaseSync): string {
  const version = db.prepare("PRAGMA user_version").get()!.user_version;
  const rows = db.prepare(
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name",
  ).all();
  return `-- schema version ${version}\n` + rows.map((row) => `${row.sql};\n`).join("\n");
}

Deno.test("schema: what the migrations make is the schema on record (UPDATE_GOLDEN=1 rewrites it)", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, "registry.db");
  const schema = schemaOf(db);
  db.close();
  if (Deno.env.get("UPDATE_GOLDEN") === "1") Deno.writeTextFileSync(GOLDEN, schema);
  assert.equal(schema, Deno.readTextFileSync(GOLDEN));
});

Deno.test("schema: migrations are numbered 1, 2, 3 …", () => {
  assert.deepEqual(MIGRATIONS.map((m) => m.version), MIGRATIONS.map((_, i) => i + 1));
});

Deno.test("schema: a database that a newer mosaic wrote is refused, with both versions named", async () => {
  await withRegistry(({ path, registry }) => {
    registry.insert(newRun(1));
    const db = new DatabaseSync(path);
    db.exec("PRAGMA user_version = 99");
    db.close();
    assert.throws(() => Registry.open(path), (error) => {
      assert.ok(error instanceof NewerSchemaError);
      assert.equal(error.code, "failed_precondition");
      assert.match(error.message, /schema version 99.*up to \d+/);
      return true;
    });
  });
});

Deno.test("schema: a migration that fails leaves the database at the version before", () => {
  const db = new DatabaseSync(":memory:");
  const broken = { version: 2, sql: "CREATE TABLE half (a TEXT); CREATE TABLE runs (a TEXT);" };
  assert.throws(() => migrate(db, "registry.db", [...MIGRATIONS.slice(0, 1), broken]));
  assert.equal(db.prepare("PRAGMA user_version").get()!.user_version, 1);
  assert.equal(
    db.prepare("SELECT count(*) AS n FROM sqlite_master WHERE name = 'half'").get()!.n,
    0,
  );
  db.close();
});

Deno.test("schema: alerts are found without reading the other events", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, "registry.db");
  const { conditions, values } = eventConditions({ kinds: ["alert"] });
  const plan = db.prepare(
    `EXPLAIN QUERY PLAN SELECT * FROM events WHERE ${
      [...conditions, "seq > ?"].join(" AND ")
    } ORDER BY seq LIMIT ?`,
  ).all(...values, 0, 1000);
  db.close();
  // And one look at the few runs in the trash.
  assert.deepEqual(plan.map(({ detail }) => detail), [
    "SEARCH events USING INDEX events_alerts (seq>?)",
    "LIST SUBQUERY 1",
    "SEARCH runs USING COVERING INDEX runs_deleted (deleted_at>?)",
    "CREATE BLOOM FILTER",
  ]);
});

Deno.test("schema: the database is its owner's alone", async () => {
  await withRegistry(({ path }) => {
    assert.equal(Deno.statSync(path).mode! & 0o077, 0);
  });
});

Deno.test("schema: a file that is no database is named as damaged, with the way out", () => {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, "this is no database ".repeat(500));
    assert.throws(() => Registry.open(path), (error) => {
      assert.match(String(error), /is damaged/);
      assert.match((error as { hint: string }).hint, /mosaic doctor --repair/);
      return true;
    });
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("schema: runs from before version 2 get their parameters; deleting a run deletes them", async () => {
  await withRegistry(({ directory }) => {
    const path = `${directory}/old.db`;
    const old = new DatabaseSync(path);
    migrate(old, path, MIGRATIONS.slice(0, 1));
    old.exec(
      `INSERT INTO runs (run_id, name, digest, state, attempt, max_attempts, priority, tags, base_dir,
      gpus_requested, gpus_mandatory, created_at, updated_at, worker_id, agent_id, config_json)
      VALUES ('OLD', 'old', 'd', 'TERMINATED', 1, 1, 0, '[]', 'runs', 0, 0, 1, 1, '', '', '{}')`,
    );
    old.close();
    const again = Registry.open(path);
    const read = () => [{ name: "lr", source: "command", value: "1" }];
    assert.equal(again.readDueParameters(10, read), 1);
    assert.equal(again.readDueParameters(10, read), 0);
    assert.deepEqual(again.parameters("OLD").map((p) => ({ ...p })), read());
    again.delete("OLD");
    assert.deepEqual(again.parametersNamed("lr"), []);
    again.close();
  });
});

Deno.test("schema: runs from before version 7 that Slurm places get the daemon's defaults once; others keep their configs", async () => {
  await withRegistry(({ directory }) => {
    const path = `${directory}/old.db`;
    const old = new DatabaseSync(path);
    migrate(old, path, MIGRATIONS.slice(0, 6));
    const configs = {
      PLACED: `{"metadata":{"launcher":"slurm","slurm":{"time":5}}}`,
      LOCAL: `{"metadata":{"launcher":"local"}}`,
      DAMAGED: `{"metadata":`,
    };
    for (const [id, config] of Object.entries(configs)) {
      old.prepare(
        `INSERT INTO runs (run_id, name, digest, state, attempt, max_attempts, priority, tags, base_dir,
        gpus_requested, gpus_mandatory, created_at, updated_at, worker_id, agent_id, config_json)
        VALUES (?, 'old', 'd', 'INIT', 1, 1, 0, '[]', 'runs', 0, 0, 1, 1, '', '', ?)`,
      ).run(id, config);
    }
    old.close();
    const again = Registry.open(path);
    // A lease that the job knows nothing of would be believed over a worker that lives.
    const entered = (config: string) =>
      withSlurmDefaults(config, { partition: "gpu", time: 30, lease_seconds: 60 });
    assert.equal(again.enterDueSlurmDefaults(entered), 1);
    assert.equal(again.enterDueSlurmDefaults(() => "{}"), 0);
    assert.deepEqual(JSON.parse(again.require("PLACED").configJson), {
      metadata: { launcher: "slurm", slurm: { partition: "gpu", time: 5 } },
    });
    assert.equal(again.require("LOCAL").configJson, configs.LOCAL);
    // Nothing is due: nothing is written, so that it does not matter who else writes, or whether
    // the disk is full.
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    assert.deepEqual([
      again.enterDueSlurmDefaults(() => "{}"),
      again.readDueParameters(10, () => []),
    ], [0, 0]);
    other.close();
    again.close();
  });
});
