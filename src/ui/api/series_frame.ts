/**
 * Encodes series of many runs as 64-bit numbers, because texts of a hundred thousand numbers take
 * the daemon and the page longer than everything else. For each name: the number of each run's
 * buckets, then column after column of all runs.
 */
import type { SeriesColumns } from "./page_json.ts";
import { BUCKET_COLUMNS, type SeriesBucketRow } from "../../records/stored.ts";

/** For an absent step or attempt. */
const NONE = NaN;
const COLUMN_NAMES = [...BUCKET_COLUMNS, "damaged" as const];
const [STEP, ATTEMPT, OVERWRITTEN, DAMAGED] = [8, 9, 10, 11];
const COLUMNS: readonly ((row: SeriesBucketRow) => number)[] = [
  (r) => r.firstX,
  (r) => r.lastX,
  (r) => r.min,
  (r) => r.max,
  (r) => r.mean,
  (r) => r.last,
  (r) => r.count,
  (r) => r.atMs,
  (r) => r.step ?? NONE,
  (r) => r.attempt ?? NONE,
  (r) => Number(r.overwritten),
  (r) => Number(r.damaged),
];

/** Marks a column that is the same in each run (steps and counts, mostly): it is sent once. */
const SHARED = 1;

/** @param runs the buckets of each run */
export function encodeSeries(runs: readonly (readonly SeriesBucketRow[])[]): Uint8Array {
  const [first = []] = runs;
  const total = runs.reduce((n, rows) => n + rows.length, 0);
  const alike = runs.every((rows) => rows.length === first.length);
  const numbers = new Float64Array(runs.length + COLUMNS.length * (1 + total));
  let at = 0;
  for (const rows of runs) numbers[at++] = rows.length;
  for (const value of COLUMNS) {
    const shared = alike &&
      runs.every((rows) => rows.every((row, i) => Object.is(value(row), value(first[i]!))));
    numbers[at++] = shared ? SHARED : 0;
    for (const rows of shared ? runs.slice(0, 1) : runs) {
      for (const row of rows) numbers[at++] = value(row);
    }
  }
  return new Uint8Array(numbers.buffer, 0, at * numbers.BYTES_PER_ELEMENT);
}

/** @param runs number of requested runs @returns for each name each run's columns */
export function decodeSeries(
  answer: ArrayBuffer,
  names: readonly string[],
  runs: number,
): SeriesColumns[][] {
  const numbers = new Float64Array(answer);
  let at = 0;
  return names.map((name) => {
    const lengths = [...numbers.subarray(at, at += runs)];
    const columns = COLUMNS.map((_, c) => {
      const shared = numbers[at++] === SHARED;
      const parts = (shared ? lengths.slice(0, 1) : lengths).map((n) => {
        const values = Array.from(numbers.subarray(at, at += n));
        if (c === STEP || c === ATTEMPT) return values.map((v) => Number.isNaN(v) ? null : v);
        return c === OVERWRITTEN || c === DAMAGED ? values.map(Boolean) : values;
      });
      return (run: number) => parts[shared ? 0 : run];
    });
    return lengths.map((_, run) =>
      ({
        name,
        ...Object.fromEntries(COLUMN_NAMES.map((column, c) => [column, columns[c]!(run)])),
      }) as SeriesColumns
    );
  });
}
