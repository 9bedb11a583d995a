/**
 * Copies rows of one SQLite database to another with the same tables, in the order of their keys.
 */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { MosaicError } from "../../base/errors.ts";

export interface CopiedTable {
  table: string;
  /** The copied columns. */
  columns: string[];
  /**
   * Rows in an order that depends only on their values; integers are bigints, so that each is
   * exact.
   */
  rows(): Iterable<SQLInputValue[]>;
  /** SQL with an anonymous parameter for each column. */
  insert: string;
}

/** Tables that have the column, by name. */
export function tablesWith(db: DatabaseSync, column: string): string[] {
  return db.prepare(
    `SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
      WHERE m.type = 'table' AND c.name = ? ORDER BY m.name`,
  ).all(column).map(({ name }) => String(name));
}

/**
 * @param key copies the rows whose `key` is `value`
 * @param left columns that are not copied
 * @param also a further condition
 * @throws MosaicError `invalid_argument` for names that would be read as SQL: the database comes
 * from another host
 */
export function copied(
  db: DatabaseSync,
  table: string,
  key: string,
  value: SQLInputValue,
  left: readonly string[] = [],
  also = "true",
): CopiedTable {
  const info = db.prepare("SELECT name, pk FROM pragma_table_info(?)").all(table) as {
    name: string;
    pk: number;
  }[];
  const strange = [table, ...info.map(({ name }) => name)].find((name) => !/^\w+$/.test(name));
  if (strange !== undefined) {
    throw new MosaicError(
      "invalid_argument",
      `a database has a table or column ${JSON.stringify(strange)}`,
    );
  }
  const columns = info.map(({ name }) => name).filter((name) => !left.includes(name));
  const order = info.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk).map(({ name }) => name);
  const by = order.length === 0 ? columns : order;
  return {
    table,
    columns,
    *rows() {
      const statement = db.prepare(
        `SELECT ${columns.join(", ")} FROM ${table} WHERE ${key} = ? AND ${also} ORDER BY ${
          by.join(", ")
        }`,
      );
      statement.setReadBigInts(true);
      for (const row of statement.iterate(value)) yield Object.values(row) as SQLInputValue[];
    },
    insert: `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${
      columns.map(() => "?").join(", ")
    })`,
  };
}
