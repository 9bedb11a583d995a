/**
 * Every place that knows the fields of a run has them from the table, and no other place lists
 * them.
 */
import { strict as assert } from "node:assert";
import { DatabaseSync } from "node:sqlite";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { migrate, withColumns } from "../../../src/registry/migrations.ts";
import * as contract from "../../../src/registry/contract.ts";
import { RunSchema } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import {
  propertyOf,
  RUN_FIELDS,
  type RunField,
  storedFields,
} from "../../../src/runs/fields/run_fields.ts";
import {
  runDetailJson,
  runDetailJsonOf,
  runJson,
  runJsonOf,
  runMessage,
} from "../../../src/runs/fields/run_json.ts";
import type { WholeRun } from "../../../src/runs/fields/run_types.ts";
import { filesOf } from "../../architecture/rooms.ts";
import { PlayedEngine } from "../../harness/played_engine.ts";

const SRC = new URL("../../../src/", import.meta.url);
const FIELDS: readonly RunField[] = RUN_FIELDS;
const NOW = Date.UTC(2025, 10, 22, 14);

/** A value of every kind, none of which is what an unset field has. */
function filled(
  fields: readonly RunField[],
  parent: Record<string, unknown>,
  row: Record<string, unknown>,
): void {
  for (const field of fields) {
    const { json = "", kind, column, list } = field;
    const values = {
      ...{
        text: `a ${json}`,
        state: "PAUSED",
        outcome: "failed",
        phase: "queued",
        base: "evals",
        integer: 7,
      },
      ...{
        number: 0.5,
        flag: true,
        time: NOW + 5,
        texts: ["a", "b"],
        integers: [3, 1],
        counts: { "step: reward": 2 },
      },
      ...{
        process: { pid: 4242, identity: "x" },
        config: `{"run_name":"a","seed":1}`,
        any: [1, null, "x"],
      },
    };
    if (field.fields !== undefined) {
      const inner: Record<string, unknown> = {};
      filled(field.fields, inner, row);
      parent[propertyOf(json)] = list ? [inner, inner] : inner;
    } else if (column !== undefined) row[propertyOf(column)] = values[kind as keyof typeof values];
    else parent[propertyOf(json)] = values[kind as keyof typeof values];
  }
}

function filledRun(): WholeRun {
  const row: Record<string, unknown> = {};
  const run: Record<string, unknown> = { row };
  filled(FIELDS, run, row);
  return {
    ...run,
    row: { ...row, gpuSlots: [0, 2], damaged: ["tags"], placement: run.placement },
  } as unknown as WholeRun;
}

Deno.test("fields: the JSON of a run is the same from the daemon's own values and from its message", async () => {
  const through = (run: WholeRun) =>
    fromBinary(RunSchema, toBinary(RunSchema, create(RunSchema, runMessage(run))));
  const run = filledRun();
  assert.deepEqual(runDetailJsonOf(through(run)), runDetailJson(run));
  assert.deepEqual(runJsonOf(through(run)), runJson(run));
  contract.RunDetail.parse(runDetailJson(run));
  assert.deepEqual(
    Object.values(runJson(run)).filter((value) => value === null || value === ""),
    [],
  );

  await using core = new PlayedEngine();
  const row = core.add("waits");
  assert.deepEqual(runDetailJsonOf(through(core.whole(row))), runDetailJson(core.whole(row)));
  contract.RunDetail.parse(runDetailJson(core.whole(row)));
});

Deno.test("fields: the table runs of the registry has exactly the columns that the table names", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, "registry.db");
  const columns = db.prepare("SELECT name FROM pragma_table_info('runs')").all().map(({ name }) =>
    name as string
  );
  db.close();
  assert.deepEqual(columns.sort(), storedFields().map(({ column }) => column).sort());
});

Deno.test("fields: a new row with a column brings its migration", () => {
  const steps = [{ version: 1, sql: "CREATE TABLE runs (run_id TEXT PRIMARY KEY) STRICT" }, {
    version: 2,
    sql: "",
  }];
  const added: RunField[] = [
    { json: "seed", kind: "integer", column: "seed", null: "both", since: 2 },
    { json: "owners", kind: "texts", column: "owners", since: 3 },
    {
      json: "capabilities",
      kind: "object",
      fields: [{ json: "x", kind: "number", column: "x", since: 3 }],
    },
  ];
  const db = new DatabaseSync(":memory:");
  migrate(db, "registry.db", steps.slice(0, 1));
  db.exec("INSERT INTO runs (run_id) VALUES ('a')");
  migrate(db, "registry.db", withColumns(steps, added));
  assert.deepEqual({
    ...db.prepare("SELECT *, (SELECT user_version FROM pragma_user_version) AS version FROM runs")
      .get(),
  }, {
    ...{ run_id: "a", seed: null, owners: "[]", x: 0, version: 3 },
  });
  db.close();
});

Deno.test("fields: the message has exactly the table's numbers, each once", () => {
  const check = (schema: typeof RunSchema, fields: readonly RunField[]) => {
    const byName = new Map(schema.fields.map((field) => [field.name, field]));
    const own = fields.filter(({ proto }) => proto !== undefined);
    assert.deepEqual(
      schema.fields.map(({ name, number }) => `${name} = ${number}`).sort(),
      own.map(({ json, message, proto }) => `${message ?? json} = ${proto}`).sort(),
    );
    for (const { json, fields } of own) {
      if (fields !== undefined) check(byName.get(json!)!.message as typeof RunSchema, fields);
    }
  };
  check(RunSchema, FIELDS);
  assert.deepEqual(
    FIELDS.filter(({ json, proto }) => (json === undefined) !== (proto === undefined)),
    [],
  );
});

// The client for TypeScript is generated from the same table.
Deno.test("fields: no other file of src/ lists them", () => {
  /** Names that only runs have, as properties of a literal or an interface. */
  const names = [
    "max_attempts",
    "gpus_requested",
    "exit_signal",
    "resume_from",
    "queue_position",
    "last_heartbeat",
  ];
  const lists = [...names, ...names.map(propertyOf)].map((name) =>
    new RegExp(`^\\s+${name}\\??: `, "m")
  );
  const found = filesOf(SRC).filter((file) =>
    !file.startsWith("gen/") && file !== "os/ts_client/mosaic.ts"
  ).filter((file) => {
    const text = Deno.readTextFileSync(new URL(file, SRC));
    return lists.filter((pattern) => pattern.test(text)).length >= 3;
  });
  assert.deepEqual(found, []);
});
