import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { addedColumns, newestField } from "../../src/telemetry/tables/added_columns.ts";
import { migrate, SCHEMA_VERSION } from "../../src/telemetry/tables/tables.ts";
import { type RecordField, RECORDS } from "../../src/records/record_fields.ts";
import { batch, steps, withStore } from "./harness.ts";

const next = SCHEMA_VERSION + 1;
const NEW_STEP_FIELDS: RecordField[] = [
  { key: "newIndex", kind: "index", json: "new_index", since: next },
  { key: "newReal", kind: "real", json: "new_real", since: next },
  { key: "newFlag", kind: "flag", json: "new_flag", since: next },
  { key: "newJson", kind: "json", json: "new_json", since: next },
];
const GROWN = {
  ...RECORDS,
  steps: { ...RECORDS.steps, fields: [...RECORDS.steps.fields, ...NEW_STEP_FIELDS] },
};

Deno.test("fields: one that is newer than its table is a column with its default, in the view for people too", () =>
  withStore(({ path, store }) => {
    store.ingest("R", 1, batch(0, 10, { steps: steps(0, 2) }));
    store.close();
    const db = new DatabaseSync(path);
    try {
      const all = () => {
        const select = db.prepare("SELECT * FROM run_steps");
        select.setReadBigInts(true);
        return select.all();
      };
      const before = all();
      assert.equal(newestField(GROWN), next);
      assert.equal(addedColumns(next + 1, GROWN), "");
      db.exec(addedColumns(next, GROWN));
      const added = { new_index: 0n, new_real: 0, new_flag: 0n, new_json: null };
      assert.deepEqual(
        all().map((row) => ({ ...row })),
        before.map((row) => ({ ...row, ...added })),
      );
    } finally {
      db.close();
    }
  }));

Deno.test("fields: the views that a migration makes anew are those of a new database", () => {
  const db = new DatabaseSync(":memory:");
  try {
    migrate(db, ":memory:");
    const names = (view: string) =>
      db.prepare(`SELECT name FROM pragma_table_info('${view}') ORDER BY name`).all().map((
        { name },
      ) => name);
    const grown = structuredClone(RECORDS);
    for (const table of Object.values(grown)) {
      table.fields = [...table.fields, { key: "x", kind: "text", json: "x", since: next }];
    }
    const views = ["run_steps", "run_episodes", "run_events", "run_metrics"];
    const before = views.map(names);
    db.exec(addedColumns(next, grown));
    assert.deepEqual(views.map(names), before.map((columns) => [...columns, "x"].sort()));
  } finally {
    db.close();
  }
});
