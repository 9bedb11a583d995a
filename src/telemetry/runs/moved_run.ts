/** A run's rows of mosaic.sqlite in a database of their own, to move the run to another host. */
import type { DatabaseSync } from "node:sqlite";
import { copied, type CopiedTable, tablesWith } from "../../os/database/copied_rows.ts";
import { migrate } from "../tables/tables.ts";

const RUNS = "telemetry_runs";
const KEY = "run_key";

/** A run's rows of every table except telemetry_runs, without their key. */
export function rowsOfRun(db: DatabaseSync, runKey: number): CopiedTable[] {
  return tablesWith(db, KEY).filter((table) => table !== RUNS).map((table) => {
    const found = copied(db, table, KEY, runKey, [KEY]);
    return { ...found, insert: withKey(found) };
  });
}

/** A run's counters, and the names of their columns. */
export function countersOf(db: DatabaseSync, runId: string): CopiedTable {
  const found = copied(db, RUNS, "run_id", runId, [KEY]);
  return { ...found, insert: withKey(found) };
}

function withKey({ table, columns }: CopiedTable): string {
  return `INSERT INTO ${table} (${KEY}, ${columns.join(", ")}) VALUES (?${
    ", ?".repeat(columns.length)
  })`;
}

/** @returns the run's key; undefined if it has no telemetry */
export function keyOf(db: DatabaseSync, runId: string): number | undefined {
  const row = db.prepare(`SELECT ${KEY} FROM ${RUNS} WHERE run_id = ? AND deleting = 0`).get(runId);
  return row === undefined ? undefined : Number(row[KEY]);
}

/**
 * @param to an empty database @param path of it, for messages @returns whether one of the runs has
 * telemetry
 */
export function extractTelemetry(
  from: DatabaseSync,
  runIds: readonly string[],
  to: DatabaseSync,
  path: string,
): boolean {
  const found = runIds.flatMap((runId) => {
    const runKey = keyOf(from, runId);
    return runKey === undefined ? [] : [{ runId, runKey }];
  });
  if (found.length === 0) return false;
  migrate(to, path);
  to.exec("BEGIN");
  for (const [n, { runId, runKey }] of found.entries()) {
    for (const { rows, insert } of [countersOf(from, runId), ...rowsOfRun(from, runKey)]) {
      const statement = to.prepare(insert);
      for (const row of rows()) statement.run(n + 1, ...row);
    }
  }
  to.exec("COMMIT");
  return true;
}
