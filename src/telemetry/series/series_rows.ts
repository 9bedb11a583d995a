/**
 * Reads the rollups' parts: points from the tables of steps, episodes and metrics, closed buckets
 * from series_buckets.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Row } from "../../gen/records/record_rows.ts";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import type { RewardPoint } from "../blocks/step_blocks.ts";
import { LEVEL_SIZES, type Part, type PartSource } from "./rollup.ts";

/** The series that every run has, in the order of their keys 1, 2, 3. */
export const BASE_SERIES = ["reward", "episode_reward", "episode_length"] as const;
/** Keys of metrics start here. */
export const FIRST_METRIC_SERIES = 16;

/** A step back along a series costs as much as reading this many rows. */
const SCAN_FACTOR = 8;

export class SeriesRows {
  readonly #base: StatementSync[];
  readonly #buckets: StatementSync;
  readonly #bucketsOfMany: StatementSync;
  readonly #bucketEnd: StatementSync;
  readonly #scan: StatementSync;
  readonly #walk: StatementSync;
  readonly #point: StatementSync;

  /**
   * @param rewards the points of `reward` from seq `first` to `last`, because steps may be in
   * blocks
   */
  constructor(
    db: DatabaseSync,
    private readonly rewards: (runKey: number, first: number, last: number) => RewardPoint[],
  ) {
    const range = "WHERE run_key = ? AND seq BETWEEN ? AND ? ORDER BY seq";
    this.#base = [
      prepareArrays(db, `SELECT seq, total_reward, ts_ns / 1000000 FROM episodes ${range}`),
      prepareArrays(db, `SELECT seq, steps, ts_ns / 1000000 FROM episodes ${range}`),
    ];
    const bucket = `b.bucket, b.min, b.max, b.sum, b.count, b.last, b.ts_ms,
      ifnull(b.step, (SELECT m.step FROM metrics m WHERE m.run_key = b.run_key AND m.seq = b.last_seq))`;
    this.#buckets = prepareArrays(
      db,
      `SELECT ${bucket} FROM series_buckets b
        WHERE b.run_key = ? AND b.series = ? AND b.level = ? AND b.bucket >= ? AND b.bucket < ? ORDER BY b.bucket`,
    );
    this.#bucketsOfMany = prepareArrays(
      db,
      `SELECT ${bucket}, b.run_key FROM json_each(?) w CROSS JOIN series_buckets b
        ON b.run_key = w.value AND b.series = ? AND b.level = ? AND b.bucket >= ? AND b.bucket < ? ORDER BY w.key, b.bucket`,
    );
    this.#bucketEnd = prepareArrays(
      db,
      "SELECT last_seq FROM series_buckets WHERE run_key = ? AND series = ? AND level = 1 AND bucket = ?",
    );
    this.#scan = prepareArrays(
      db,
      "SELECT value, ts_ms, step FROM metrics WHERE run_key = ? AND seq > ? AND seq <= ? AND series = ? ORDER BY seq",
    );
    this.#point = prepareArrays(
      db,
      "SELECT value, ts_ms, step FROM metrics WHERE run_key = ? AND seq = ?",
    );
    this.#walk = prepareArrays(
      db,
      `WITH RECURSIVE walk (seq, back, value, ts_ms, step, n) AS (
        SELECT seq, back, value, ts_ms, step, 1 FROM metrics WHERE run_key = ? AND seq = ?
        UNION ALL
        SELECT m.seq, m.back, m.value, m.ts_ms, m.step, n + 1
          FROM walk JOIN metrics m ON m.run_key = ? AND m.seq = walk.seq - walk.back WHERE walk.back > 0 AND n < ?
      ) SELECT value, ts_ms, step FROM walk`,
    );
  }

  /**
   * @param points number of the series' points @param lastSeq the metric row of its last point; 0
   * for base series
   */
  source(runKey: number, series: number, points: number, lastSeq: number): PartSource {
    return {
      buckets: (level, from, to) =>
        allRows(this.#buckets, runKey, series, level, from, to).map((row) =>
          bucketPart(level, row)
        ),
      points: (first, last) =>
        series < FIRST_METRIC_SERIES
          ? this.#basePoints(runKey, series, first, last).map((row) =>
            pointPart(row[0] as number, row[1] as number | null, row[2] as number, null)
          )
          : this.#metricPoints(runKey, series, first, last, points, lastSeq),
    };
  }

  /**
   * As `buckets` of a source, for many runs at once: a statement for each would cost more than its
   * rows. @returns by run
   */
  bucketsOfMany(
    runKeys: readonly number[],
    series: number,
    level: number,
    from: number,
    to: number,
  ): Map<number, Part[]> {
    const found = new Map(runKeys.map((runKey): [number, Part[]] => [runKey, []]));
    for (
      const row of allRows(
        this.#bucketsOfMany,
        JSON.stringify([...found.keys()]),
        series,
        level,
        from,
        to,
      )
    ) {
      found.get(row[8] as number)!.push(bucketPart(level, row));
    }
    return found;
  }

  #basePoints(runKey: number, series: number, first: number, last: number) {
    return series === 1
      ? this.rewards(runKey, first, last)
      : allRows(this.#base[series - 2]!, runKey, first, last);
  }

  /**
   * Points of a metric. The rows at the ends of closed buckets and the last row are known. If the
   * series is most of what is between two of these, all of that is read; otherwise it is followed
   * backwards, row by row.
   */
  #metricPoints(
    runKey: number,
    series: number,
    first: number,
    last: number,
    points: number,
    lastSeq: number,
  ): Part[] {
    if (first === points && last === points) {
      return allRows(this.#point, runKey, lastSeq).map(([value, atMs, step]) =>
        pointPart(points, value as number | string, atMs as number, step as number)
      );
    }
    const size = LEVEL_SIZES[1];
    const endOf = (bucket: number) =>
      allRows(this.#bucketEnd, runKey, series, bucket - 1)[0]?.[0] as number;
    let x = Math.ceil(last / size) * size;
    let seq = x <= points ? endOf(x / size) : 0;
    if (!seq) {
      x = points;
      seq = lastSeq;
    }
    const before = Math.floor((first - 1) / size);
    const beforeSeq = before === 0 ? 0 : endOf(before) ?? 0;
    const parts: Part[] = [];
    if (seq - beforeSeq <= SCAN_FACTOR * (x - before * size)) {
      let at = before * size;
      for (const [value, atMs, step] of allRows(this.#scan, runKey, beforeSeq, seq, series)) {
        if (++at < first || at > last) continue;
        parts.push(pointPart(at, value as number | string, atMs as number, step as number));
      }
      return parts;
    }
    for (const [value, atMs, step] of allRows(this.#walk, runKey, seq, runKey, x - first + 1)) {
      if (x <= last) {
        parts.push(pointPart(x, value as number | string, atMs as number, step as number));
      }
      x--;
    }
    return parts.reverse();
  }
}

function bucketPart(level: number, columns: Row): Part {
  const size = LEVEL_SIZES[level]!;
  const row = columns as number[];
  return {
    first: row[0]! * size + 1,
    last: (row[0]! + 1) * size,
    min: row[1]!,
    max: row[2]!,
    sum: row[3]!,
    count: row[4]!,
    lastValue: row[5]!,
    atMs: row[6]!,
    step: columns[7] as number | null,
  };
}

function pointPart(
  x: number,
  value: number | string | null,
  atMs: number,
  step: number | null,
): Part {
  const finite = typeof value === "number" && Number.isFinite(value);
  const number = finite ? value : 0;
  const count = finite ? 1 : 0;
  return {
    first: x,
    last: x,
    min: number,
    max: number,
    sum: number,
    count,
    lastValue: number,
    atMs,
    step,
  };
}
