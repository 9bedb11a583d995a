/**
 * The hot path: columns into the steps table. SQLite takes nearly all of its time, so it binds as
 * few values as possible: columns that have only defaults in a batch are omitted, by a statement
 * for that set of columns.
 */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { BulkInsert } from "../tables/bulk_insert.ts";
import type { CleanSteps } from "../../records/storable_steps.ts";
import { OPTIONAL_STEP_COLUMNS as OPTIONAL } from "../../gen/records/record_rows.ts";

/** Sets of columns whose statements are kept; a worker has one or two. */
const MAX_STATEMENTS = 24;

export class StepWriter {
  #inserts = new Map<number, BulkInsert>();

  constructor(private readonly db: DatabaseSync) {}

  /**
   * Inserts all rows; the first gets seq `first`. @param sources a source per row, or one for all
   */
  insert(
    runKey: number,
    first: number,
    attempt: number,
    steps: CleanSteps,
    sources: number[] | number,
  ): void {
    const columns: (readonly SQLInputValue[])[] = [];
    let mask = 0;
    for (let c = 0; c < OPTIONAL.length; c++) {
      const { key, real } = OPTIONAL[c]!;
      const column = steps[key];
      if (column === undefined) continue;
      mask |= 1 << c;
      columns.push(real ? withoutNaN(column as number[]) : column);
    }
    const { tsNs } = steps;
    const width = columns.length;
    // Bound as a number: text would be converted in every row. Often all rows of a batch have the
    // same time.
    let timeText = "";
    let time = 0n;
    this.#for(mask).fill(steps.n, (args, at, i) => {
      if (tsNs[i] !== timeText) time = BigInt(timeText = tsNs[i]!);
      args[at++] = runKey;
      args[at++] = first + i;
      args[at++] = attempt;
      args[at++] = time;
      args[at++] = typeof sources === "number" ? sources : sources[i]!;
      for (let c = 0; c < width; c++) {
        const value = columns[c]![i]!;
        args[at++] = value === "" ? null : value;
      }
      return at;
    });
  }

  #for(mask: number): BulkInsert {
    let insert = this.#inserts.get(mask);
    if (insert === undefined) {
      const names = OPTIONAL.filter((_, c) => mask & (1 << c)).map(({ column }) => column);
      insert = new BulkInsert(this.db, "steps", [
        "run_key",
        "seq",
        "attempt",
        "ts_ns",
        "source",
        ...names,
      ]);
      if (this.#inserts.size >= MAX_STATEMENTS) {
        this.#inserts.delete(this.#inserts.keys().next().value!);
      }
      this.#inserts.set(mask, insert);
    }
    return insert;
  }
}

/** NaN as NULL, as in SQLite. Few batches have one. */
function withoutNaN(values: number[]): (number | null)[] {
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) return values.map((value) => Number.isNaN(value) ? null : value);
  }
  return values;
}
