/**
 * Checksums of rows outside of blocks. SQLite detects damage to a page's structure, but not to a
 * value in it. A row's column "crc" covers all its other values except the identity of its run
 * (which another database or name changes); NULL: a row of an earlier version, which cannot be
 * checked.
 */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { zlib } from "../../base/node_modules.ts";

/** Tables with checksums. Blocks of steps have their own. */
const TABLES = [
  ...[
    "steps",
    "episodes",
    "worker_events",
    "metrics",
    "series_buckets",
    "sources",
    "journal_positions",
  ],
  ...["telemetry_runs", "series", "series_starts", "parameters", "source_cursors"],
];
export const CRC_COLUMN = "crc";
const UNCHECKED = new Set(["run_key", "run_id", "deleting", CRC_COLUMN]);

/** The checksum of a row whose first value is at `from`. */
export type ChecksumOf = (values: readonly SQLInputValue[], from: number) => number;

/** @param columns of the rows to be checked; the others have their defaults */
export function rowChecksum(
  db: DatabaseSync,
  table: string,
  columns: readonly string[],
): ChecksumOf {
  const known = db.prepare(`PRAGMA table_info(${table})`).all() as {
    name: string;
    dflt_value: string | null;
  }[];
  // In the order of the table's columns, whatever the statement's order. Defaults are omitted, as
  // in statements.
  const parts = known.filter(({ name }) => columns.includes(name) && !UNCHECKED.has(name))
    .map(({ name, dflt_value }) => ({
      at: columns.indexOf(name),
      name,
      absent: dflt_value,
      exact: name === "ts_ns",
    }));
  let crc32: ReturnType<typeof zlib>["crc32"] | undefined;
  return (values, from) => {
    let text = "";
    for (const { at, name, absent, exact } of parts) {
      const value = values[from + at]!;
      const own = value === null ? null : exact ? String(BigInt(value as string)) : plain(value);
      if (own !== absent) text += `${name}=${own}\n`;
    }
    // Signed, because that always takes four bytes.
    return (crc32 ??= zlib().crc32)(text) | 0;
  };
}

/** A number must give the same text whether it is bound or read back as an integer. */
function plain(value: SQLInputValue): string {
  return typeof value === "bigint" ? String(Number(value)) : String(value);
}

export interface DamagedRow {
  runKey: number;
  table: string;
  row: Record<string, unknown>;
}

/** Damaged rows. Reads all rows. */
export function* damagedRows(db: DatabaseSync): Generator<DamagedRow> {
  for (const table of TABLES) {
    const columns = db.prepare(`PRAGMA table_info(${table})`).all().map(({ name }) => String(name));
    if (!columns.includes(CRC_COLUMN)) continue;
    const checksum = rowChecksum(db, table, columns);
    const rows = db.prepare(`SELECT * FROM ${table} WHERE ${CRC_COLUMN} IS NOT NULL`);
    // Nanoseconds exceed a number's precision.
    rows.setReadBigInts(true);
    for (const row of rows.iterate() as Iterable<Record<string, SQLInputValue>>) {
      if (intact(checksum, Object.values(row), row[CRC_COLUMN])) continue;
      yield { runKey: Number(row.run_key), table, row };
    }
  }
}

/**
 * For rows that are written one by one: SQL of the columns and of their parameters, the values with
 * the checksum, and its check.
 */
export function checkedRow(db: DatabaseSync, table: string, columns: readonly string[]) {
  const checksum = rowChecksum(db, table, columns);
  return {
    insert: `INTO ${table} (${[...columns, CRC_COLUMN].join(", ")}) VALUES (?${
      ", ?".repeat(columns.length)
    })`,
    values: (...values: SQLInputValue[]): SQLInputValue[] => [...values, checksum(values, 0)],
    intact: (values: readonly SQLInputValue[], crc: unknown) => intact(checksum, values, crc),
  };
}

/** Whether a row is intact. @param crc undefined or null: of an earlier version */
export function intact(
  checksum: ChecksumOf,
  values: readonly SQLInputValue[],
  crc: unknown,
): boolean {
  if (crc === null || crc === undefined) return true;
  try {
    return checksum(values, 0) === Number(crc);
  } catch {
    // A time that is no number.
    return false;
  }
}
