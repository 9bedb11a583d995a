/**
 * The databases in a run file, which somebody else may have made: a run's rows of registry.db and
 * of telemetry.sqlite.
 */
import type { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../base/errors.ts";
import { quote } from "../os/database/copied_database.ts";
import { openForeign } from "../os/database/foreign_database.ts";
import { migrate as migrateTelemetry, SCHEMA_VERSION } from "../telemetry/tables/tables.ts";
import { migrate as migrateRegistry, MIGRATIONS } from "./migrations.ts";

const KINDS = {
  "registry.db": {
    newest: MIGRATIONS.at(-1)!.version,
    // A config has 8 MiB at most; the row has other fields beside it.
    longestRow: 16 << 20,
    create: (db: DatabaseSync, version: number) =>
      migrateRegistry(
        db,
        "registry.db",
        MIGRATIONS.filter((migration) => migration.version <= version),
      ),
    // What every list and every event stream reads as JSON.
    json: [
      "events.data_json",
      "runs.tags",
      "runs.stderr_tail",
      "placements.nodes",
      "placements.gpus",
      "parameters.value",
    ],
  },
  "telemetry.sqlite": {
    newest: SCHEMA_VERSION,
    // A record has 64 MiB at most.
    longestRow: 128 << 20,
    create: (db: DatabaseSync, version: number) =>
      migrateTelemetry(db, "telemetry.sqlite", version),
    json: [],
  },
} as const;

export type ForeignRows = keyof typeof KINDS;

/**
 * @param whole compares all pages, which takes as long as reading the file
 * @throws MosaicError `invalid_argument` for a database that mosaic has not made,
 * `failed_precondition` for a later version's
 */
export function openForeignRows(
  path: string,
  kind: ForeignRows,
  { whole, writable }: { whole: boolean; writable: boolean },
): DatabaseSync {
  const { newest, create, json, longestRow } = KINDS[kind];
  const db = openForeign(path, {
    length: longestRow,
    whole,
    writable,
    create(own, version) {
      if (version > newest) {
        throw new MosaicError(
          "failed_precondition",
          `${path} has schema ${version}, this mosaic knows ${newest} at most`,
          {
            hint: "Import it with the mosaic that has exported it, or a newer one.",
          },
        );
      }
      create(own, version);
    },
  });
  try {
    requireSizes(db, path, longestRow);
    for (const name of json) {
      const [table, column] = name.split(".");
      if (
        db.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?").get(table!, column!) ===
          undefined
      ) continue;
      const wrong = db.prepare(
        `SELECT 1 FROM ${table} WHERE ${column} IS NOT NULL AND NOT json_valid(${column}) LIMIT 1`,
      );
      if (wrong.get() !== undefined) {
        throw new MosaicError("invalid_argument", `${path}: ${name} has text that is no JSON`);
      }
    }
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * SQLite fails at a longer text only when it reads it: in the middle of an import, or of a later
 * list.
 */
function requireSizes(db: DatabaseSync, path: string, most: number): void {
  const columns = db.prepare(
    `SELECT m.name AS tab, c.name AS col FROM sqlite_schema m JOIN pragma_table_info(m.name) c
      WHERE m.type = 'table' AND c.type IN ('TEXT', 'BLOB')`,
  ).all() as { tab: string; col: string }[];
  for (const { tab, col } of columns) {
    const longer = db.prepare(
      `SELECT octet_length(${quote(col)}) AS bytes FROM ${quote(tab)} WHERE bytes > ? LIMIT 1`,
    );
    const found = longer.get(most);
    if (found === undefined) continue;
    throw new MosaicError(
      "invalid_argument",
      `${path}: ${tab}.${col} has ${found["bytes"]} bytes; the bound is ${most}`,
    );
  }
}
