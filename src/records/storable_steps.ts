/**
 * Steps between arrival and storage. They stay columns: values are made storable once (here), bound
 * to statements and kept in the ring without building row objects. Rows are built only for readers.
 */
import {
  cleanColumns,
  type ColumnCleaner,
  StepColumnsBuilder,
} from "../gen/records/step_columns.ts";
import type { CleanSteps, StepColumns, StepRecord } from "../gen/records/record_types.ts";

export { stepAt, stepTextLength } from "../gen/records/step_columns.ts";
export type { CleanSteps };

/** The largest number of rows one batch may hold. */
const MAX_BATCH_ROWS = 1_000_000;
const MAX_TS = "9223372036854775807";
const TS = /^(?:0|[1-9]\d{0,18})$/;

/** A text that SQLite returns unchanged: no lone surrogate, no NUL. */
export function storableText(text: unknown): string {
  if (typeof text !== "string") {
    return text === undefined || text === null ? "" : storableText(JSON.stringify(text));
  }
  if (text.isWellFormed() && !text.includes("\0")) return text;
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** A count or index that SQLite and JavaScript both represent exactly. */
export function storableInteger(value: unknown): number {
  const number = typeof value === "boolean" ? Number(value) : value;
  if (typeof number !== "number" || !(number > 0)) return 0;
  return number >= Number.MAX_SAFE_INTEGER ? Number.MAX_SAFE_INTEGER : Math.floor(number);
}

/** A reward as a number; texts name the values that JSON lacks. -0 becomes 0, as in SQLite. */
export function storableReal(value: unknown): number {
  if (typeof value === "number") return value === 0 ? 0 : value;
  if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value);
  return typeof value === "boolean" ? Number(value) : 0;
}

export function storableTime(value: unknown, arrivalNs: string): string {
  if (typeof value !== "string" || !TS.test(value)) return arrivalNs;
  return value.length === 19 && value > MAX_TS ? arrivalNs : value;
}

export abstract class Cleaner<Texts> implements ColumnCleaner<Texts> {
  clamped = 0;
  textLength = 0;

  constructor(readonly n: number) {}

  abstract texts(column: unknown): Texts | undefined;

  integers(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      const value = out[i]!;
      if (Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)) continue;
      if (out === column) out = out.slice();
      out[i] = storableInteger(value);
      if (out[i] !== (value as unknown)) this.clamped++;
    }
    return out;
  }

  flags(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      if (out[i] === 0 || out[i] === 1) continue;
      if (out === column) out = out.slice();
      out[i] = out[i] ? 1 : 0;
    }
    return out;
  }

  reals(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      const value = out[i]! as unknown;
      if (typeof value === "number" && value !== 0) continue;
      if (Object.is(value, 0)) continue;
      if (out === column) out = out.slice();
      out[i] = storableReal(value);
    }
    return out;
  }

  protected strings(column: unknown): string[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as string[];
    if (out.length !== this.n) out = this.#fit(out, "");
    for (let i = 0; i < out.length; i++) {
      const value = out[i]!;
      const clean = storableText(value);
      if (clean !== value) {
        if (out === column) out = out.slice();
        out[i] = clean;
        this.clamped++;
      }
      this.textLength += clean.length;
    }
    return out;
  }

  labels(column: unknown): string[] | string {
    if (Array.isArray(column)) return this.strings(column)!;
    return column === undefined ? "" : storableText(column);
  }

  times(column: unknown, arrivalNs: string): string[] {
    if (!Array.isArray(column)) return new Array<string>(this.n).fill(arrivalNs);
    let out = column as string[];
    if (out.length !== this.n) out = this.#fit(out, "");
    for (let i = 0; i < out.length; i++) {
      const clean = storableTime(out[i], arrivalNs);
      if (clean === out[i]) continue;
      if (out === column) out = out.slice();
      if (out[i] !== "") this.clamped++;
      out[i] = clean;
    }
    return out;
  }

  #absent(column: unknown): undefined {
    if (column !== undefined && column !== null) this.clamped += this.n;
    return undefined;
  }

  #fit<T>(column: T[], missing: T): T[] {
    this.clamped += Math.abs(this.n - column.length);
    const out = column.slice(0, this.n);
    while (out.length < this.n) out.push(missing);
    return out;
  }
}

class StringCleaner extends Cleaner<string[]> {
  texts(column: unknown): string[] | undefined {
    return this.strings(column);
  }
}

export function storableRows({ n }: { n: unknown }): number {
  return Math.min(storableInteger(n), MAX_BATCH_ROWS);
}

/** Makes a batch's steps storable; arrays that need no change are kept, not copied. */
export function cleanSteps(steps: StepColumns, arrivalNs: string): CleanSteps {
  return cleanColumns(new StringCleaner(storableRows(steps)), steps, arrivalNs);
}

/** Records (of the original's Publish RPCs) as the columns that a proxy would have sent. */
export function columnsOf(records: readonly StepRecord[]): StepColumns {
  const builder = new StepColumnsBuilder<string, string[]>(() => []);
  for (const record of records) builder.add(record);
  return builder.take();
}
