/**
 * The hot path: columns into the steps table. Calling a statement costs as much as storing a row, so sixteen rows go into
 * one call; columns that have only defaults in a batch are not bound at all, by a statement for that set of columns.
 * (Parameters are anonymous: the runtime looks numbered ones up by name, which is quadratic.)
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { CleanSteps } from "./columns.ts";

const ROWS_PER_CALL = 16;
/** Sets of columns whose statements are kept; a worker has one or two. */
const MAX_STATEMENTS = 24;

const OPTIONAL = [
  ["episode", "episode"],
  ["step", "step"],
  ["reward", "reward"],
  ["terminated", "terminated"],
  ["truncated", "truncated"],
  ["action", "action"],
  ["observation", "observation"],
  ["info", "info"],
  ["renderHint", "render_hint"],
  ["renderPayload", "render_payload"],
  ["frameRef", "frame_ref"],
  ["payloadVersion", "payload_version"],
  ["episodeSeed", "episode_seed"],
] as const satisfies readonly (readonly [keyof CleanSteps, string])[];

interface Statements {
  many: StatementSync;
  one: StatementSync;
}

export class StepWriter {
  #statements = new Map<number, Statements>();

  constructor(private readonly db: DatabaseSync) {}

  /** Inserts all rows; the first gets seq `first`. @param sources a source per row, or one for all */
  insert(runKey: number, first: number, attempt: number, steps: CleanSteps, sources: number[] | number): void {
    const columns: (readonly SQLInputValue[])[] = [];
    let mask = 0;
    for (let c = 0; c < OPTIONAL.length; c++) {
      const key = OPTIONAL[c]![0];
      const column = steps[key];
      if (column === undefined) continue;
      mask |= 1 << c;
      columns.push(key === "reward" && steps.hasNaN ? withoutNaN(steps.reward!) : column);
    }
    const { many, one } = this.#for(mask);
    const { tsNs, n } = steps;
    const width = columns.length;
    const bind = (args: SQLInputValue[], o: number, i: number): number => {
      args[o++] = runKey;
      args[o++] = first + i;
      args[o++] = attempt;
      args[o++] = tsNs[i]!;
      args[o++] = typeof sources === "number" ? sources : sources[i]!;
      for (let c = 0; c < width; c++) {
        const value = columns[c]![i]!;
        args[o++] = value === "" ? null : value;
      }
      return o;
    };
    let i = 0;
    const args: SQLInputValue[] = new Array(ROWS_PER_CALL * (5 + width));
    for (; i + ROWS_PER_CALL <= n; i += ROWS_PER_CALL) {
      let o = 0;
      for (let j = i; j < i + ROWS_PER_CALL; j++) o = bind(args, o, j);
      many.run(...args);
    }
    const rest: SQLInputValue[] = new Array(5 + width);
    for (; i < n; i++) {
      bind(rest, 0, i);
      one.run(...rest);
    }
  }

  #for(mask: number): Statements {
    const known = this.#statements.get(mask);
    if (known !== undefined) return known;
    const names = ["run_key", "seq", "attempt", "ts_ns", "source"];
    for (let c = 0; c < OPTIONAL.length; c++) if (mask & (1 << c)) names.push(OPTIONAL[c]![1]);
    const row = `(${names.map(() => "?").join(",")})`;
    const prepare = (rows: number) =>
      this.db.prepare(`INSERT INTO steps (${names.join(",")}) VALUES ${new Array(rows).fill(row).join(",")}`);
    const made = { many: prepare(ROWS_PER_CALL), one: prepare(1) };
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.delete(this.#statements.keys().next().value!);
    this.#statements.set(mask, made);
    return made;
  }
}

/** NaN as SQLite has it. */
function withoutNaN(values: number[]): (number | null)[] {
  return values.map((value) => Number.isNaN(value) ? null : value);
}
