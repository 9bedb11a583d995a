/**
 * Where the attempts of a run begin in its series. An attempt that resumes from a checkpoint writes
 * positions again that earlier attempts had written: those points are overwritten. They stay
 * stored, and each reader chooses. A position is the worker's step for metrics, and the number of
 * the step or episode for the series that every run has.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import { checkedRow } from "../tables/row_checksums.ts";

/** An attempt's first point in a series: its number among the series' points, and its position. */
export interface Start {
  attempt: number;
  first: number;
  position: number;
}

/** Consecutive points of one attempt, all of them overwritten or none. */
export interface Part {
  attempt: number;
  first: number;
  last: number;
  overwritten: boolean;
  /** Position minus number; for metrics it has no meaning. */
  shift: number;
}

export class Rewinds {
  readonly #of: StatementSync;
  readonly #put: StatementSync;
  readonly #row: ReturnType<typeof checkedRow>;

  constructor(db: DatabaseSync) {
    this.#of = prepareArrays(
      db,
      "SELECT attempt, first, position FROM series_starts WHERE run_key = ? AND series = ? ORDER BY first, attempt",
    );
    this.#row = checkedRow(db, "series_starts", [
      "run_key",
      "series",
      "attempt",
      "first",
      "position",
    ]);
    this.#put = db.prepare(`INSERT OR REPLACE ${this.#row.insert}`);
  }

  of(runKey: number, series: number): Start[] {
    return allRows(this.#of, runKey, series).map((row) => {
      const [attempt, first, position] = row as [number, number, number];
      return { attempt, first, position };
    });
  }

  put(runKey: number, series: number, { attempt, first, position }: Start): void {
    this.#put.run(...this.#row.values(runKey, series, attempt, first, position));
  }
}

/**
 * Divides the points 1 to `points` into parts.
 * @param starts of the attempts after the first, ascending
 * @param stepAt the position of a point of a metric; undefined if positions are numbers
 */
export function partsOf(
  starts: readonly Start[],
  points: number,
  stepAt?: (x: number) => number,
): Part[] {
  const parts = [{ attempt: 1, first: 1, position: 1 }, ...starts];
  let lowest = Infinity;
  const found: Part[] = [];
  for (let i = parts.length - 1; i >= 0; i--) {
    const { attempt, first, position } = parts[i]!;
    const last = (parts[i + 1]?.first ?? points + 1) - 1;
    const shift = position - first;
    const cut = stepAt === undefined || lowest === Infinity
      ? lowest - shift
      : firstFrom(first, last, (x) => stepAt(x) >= lowest);
    const part = (from: number, to: number, overwritten: boolean) => {
      if (from <= to) found.unshift({ attempt, first: from, last: to, overwritten, shift });
    };
    part(Math.max(first, cut), last, true);
    part(first, Math.min(last, cut - 1), false);
    lowest = Math.min(lowest, position);
  }
  return found;
}

/**
 * The first number of `first` … `last` for which `holds` is true; `last` + 1 if there is none.
 * `holds` must stay true once it is.
 */
export function firstFrom(first: number, last: number, holds: (x: number) => boolean): number {
  let [low, high] = [first, last + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
