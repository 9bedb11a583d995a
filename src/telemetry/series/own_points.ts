/**
 * The parts of a run's series that none of its logs contains, for rebuilding its telemetry from the
 * logs: where attempts begin in the series that every run has, and points without a record (what
 * the run used of its host). Damaged rows are omitted.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import type { Rewinds, Start } from "./rewinds.ts";
import { type ChecksumOf, intact, rowChecksum } from "../tables/row_checksums.ts";
import { BASE_SERIES } from "./series_rows.ts";

/** The label of the source of these points. */
export const OWN_LABEL = "mosaic";

export interface OwnPoint {
  attempt: number;
  name: string;
  value: number;
  step: number;
  atMs: number;
}

const COLUMNS = ["seq", "series", "back", "step", "ts_ms", "value"];
const START_COLUMNS = ["series", "attempt", "first", "position"];
const ROWS_AT_ONCE = 1000;

export class OwnPoints {
  readonly #rewinds: Rewinds;
  readonly #series: StatementSync;
  readonly #points: StatementSync;
  readonly #starts: StatementSync;
  readonly #pointSum: ChecksumOf;
  readonly #startSum: ChecksumOf;

  constructor(db: DatabaseSync, rewinds: Rewinds) {
    this.#rewinds = rewinds;
    this.#series = prepareArrays(
      db,
      "SELECT series, name, attempt FROM series WHERE run_key = ? AND label = ?",
    );
    this.#points = prepareArrays(
      db,
      `SELECT ${
        COLUMNS.join(", ")
      }, crc FROM metrics WHERE run_key = ? AND seq > ? ORDER BY seq LIMIT ${ROWS_AT_ONCE}`,
    );
    this.#starts = prepareArrays(
      db,
      `SELECT ${
        START_COLUMNS.join(", ")
      }, crc FROM series_starts WHERE run_key = ? AND series <= ? AND attempt = ?`,
    );
    this.#pointSum = rowChecksum(db, "metrics", COLUMNS);
    this.#startSum = rowChecksum(db, "series_starts", START_COLUMNS);
  }

  /** Where an attempt begins in the series that every run has. */
  starts(runKey: number, attempt: number): (Start & { series: number })[] {
    return whole(allRows(this.#starts, runKey, BASE_SERIES.length, attempt), this.#startSum).map(
      (row) => {
        const [series, attempt, first, position] = row as number[];
        return { series: series!, attempt: attempt!, first: first!, position: position! };
      },
    );
  }

  /** The points without a record, in the order of their storage, some at a time. */
  *points(runKey: number): Generator<OwnPoint[]> {
    const series = new Map(
      allRows(this.#series, runKey, OWN_LABEL).map((row) => {
        const [key, name, last] = row as [number, string, number];
        const starts = this.#rewinds.of(runKey, key);
        return [key, { name, number: 0, starts, first: starts.length === 0 ? last : 1 }];
      }),
    );
    if (series.size === 0) return;
    for (let rows, at = 0; (rows = allRows(this.#points, runKey, at)).length > 0;) {
      at = rows.at(-1)![0] as number;
      const numbered = rows.map((row) => {
        const own = series.get(row[1] as number);
        return { row, own, number: own === undefined ? 0 : ++own.number };
      });
      yield numbered.flatMap(({ row, own, number }) => {
        if (own === undefined || whole([row], this.#pointSum).length === 0) return [];
        const attempt = own.starts.findLast(({ first }) => first <= number)?.attempt ?? own.first;
        const [, , , step, atMs, value] = row;
        return [{
          attempt,
          name: own.name,
          value: Number(value),
          step: Number(step ?? 0),
          atMs: Number(atMs),
        }];
      });
    }
  }
}

/** The intact rows, without their checksum (the last value). */
function whole(rows: readonly unknown[][], checksum: ChecksumOf): SQLInputValue[][] {
  return (rows as SQLInputValue[][]).filter((row) => intact(checksum, row.slice(0, -1), row.at(-1)))
    .map((row) => row.slice(0, -1));
}
