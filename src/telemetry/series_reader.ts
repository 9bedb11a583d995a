/** Reads the curves of a run: points of a range, or an outline, with their attempts. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { MosaicError } from "../base/errors.ts";
import type { SeriesBucketRow } from "../records/stored.ts";
import { allRows, prepareArrays } from "./tables/row_reader.ts";
import { partsOf, type Rewinds } from "./series/rewinds.ts";
import {
  decimate,
  decimateOn,
  outline,
  outlineFrom,
  outlineOf,
  type OutlineShape,
  type PartSource,
  rowOf,
} from "./series/rollup.ts";
import type { RunState } from "./runs/run_state.ts";
import { BASE_SERIES, type SeriesRows } from "./series/series_rows.ts";

export interface SeriesOfRun {
  runId: string;
  /** undefined: the run has no telemetry. */
  state: RunState | undefined;
  name: string;
}

export class SeriesReader {
  readonly #rows: SeriesRows;
  readonly #rewinds: Rewinds;
  readonly #seriesOf: StatementSync;
  readonly #seriesOfMany: StatementSync;

  constructor(db: DatabaseSync, rows: SeriesRows, rewinds: Rewinds) {
    this.#rows = rows;
    this.#rewinds = rewinds;
    this.#seriesOf = prepareArrays(
      db,
      "SELECT series, points, last_seq FROM series INDEXED BY series_by_name WHERE name = ? AND run_key = ?",
    );
    this.#seriesOfMany = prepareArrays(
      db,
      `SELECT w.value, s.series, s.points, s.last_seq,
          EXISTS (SELECT 1 FROM series_starts r WHERE r.run_key = s.run_key AND r.series = s.series)
        FROM json_each(?) w LEFT JOIN series s INDEXED BY series_by_name ON s.name = ? AND s.run_key = w.value`,
    );
  }

  /** @throws `not_found` for a name without points in the run. */
  points(
    run: SeriesOfRun,
    fromX: number,
    toX: number,
    buckets: number,
    rough: boolean,
  ): SeriesBucketRow[] {
    const found = this.#parts(run);
    if (found === undefined) return [];
    const { parts, source, rewound, base, points, kept } = found;
    const first = Math.max(1, Math.floor(fromX));
    const last = toX > 0 ? Math.min(toX, points) : points;
    const wanted = parts.filter((p) => p.first <= last && p.last >= first)
      .map((p) => ({ ...p, first: Math.max(first, p.first), last: Math.min(last, p.last) }));
    return wanted.flatMap(({ attempt, overwritten, shift, ...part }) => {
      const share = wanted.length === 1 ? 1 : (part.last - part.first + 1) / (last - first + 1);
      const most = Math.max(1, Math.floor(buckets * share));
      const rows = rough && !rewound
        ? outline(source, part.first, part.last, points, most).map(rowOf)
        : decimate(source, part.first, part.last, most, kept);
      return rows.map((row): SeriesBucketRow => ({
        ...row,
        step: rewound && base ? row.lastX + shift : row.step,
        attempt: rewound ? attempt : null,
        overwritten,
      }));
    });
  }

  /**
   * The buckets from `from` on, of this width; undefined for a series of several attempts, whose
   * parts have others.
   */
  tail(run: SeriesOfRun, from: number, width: number): SeriesBucketRow[] | undefined {
    const found = this.#parts(run);
    if (found === undefined || found.rewound || found.parts.length !== 1) return undefined;
    const { parts: [part], source, points, kept } = found;
    return decimateOn(source, Math.max(part!.first, from), points, width, kept)
      .map((row) => ({ ...row, attempt: null, overwritten: false }));
  }

  /**
   * Outlines of a series of many runs, by their keys; empty for a run without the series. Runs with
   * few points, or with several attempts, are not in the result: use `points` for those.
   */
  outlines(runKeys: readonly number[], name: string, fromX: number, toX: number, most: number) {
    const found = new Map<number, SeriesBucketRow[]>();
    const first = Math.max(1, Math.floor(fromX));
    // Most runs have the series under the same key, and the same number of buckets.
    const alike = new Map<
      string,
      { series: number; shape: OutlineShape; sources: Map<number, PartSource> }
    >();
    const limit = Math.max(1, Math.floor(most));
    for (const row of allRows(this.#seriesOfMany, JSON.stringify(runKeys), name)) {
      const [runKey, series, points, lastSeq, rewound] = row as [
        number,
        number | null,
        number,
        number,
        number,
      ];
      const last = toX > 0 ? Math.min(toX, points) : points;
      if (series === null || first > last) {
        found.set(runKey, []);
        continue;
      }
      const shape = outlineOf(first, last, points, limit);
      if (rewound || shape.level === 0) continue;
      const key = [series, ...Object.values(shape)].join();
      const group = alike.get(key) ?? { series, shape, sources: new Map<number, PartSource>() };
      group.sources.set(runKey, this.#rows.source(runKey, series, points, lastSeq));
      alike.set(key, group);
    }
    for (const { series, shape, sources } of alike.values()) {
      const { level, from, to } = shape;
      for (
        const [runKey, buckets] of this.#rows.bucketsOfMany(
          [...sources.keys()],
          series,
          level,
          from,
          to,
        )
      ) {
        const parts = outlineFrom(buckets, shape, sources.get(runKey)!, limit);
        found.set(
          runKey,
          parts.map((part) => ({ ...rowOf(part), attempt: null, overwritten: false })),
        );
      }
    }
    return found;
  }

  /** Ranges of points that later attempts have overwritten. @throws as `points` */
  overwritten(run: SeriesOfRun): { first: number; last: number }[] {
    return this.#parts(run)?.parts.filter((p) => p.overwritten).map(({ first, last }) => ({
      first,
      last,
    })) ?? [];
  }

  /**
   * A series in parts of one attempt each; undefined if it is a series that every run has and the
   * run has no points.
   */
  #parts({ runId, state, name }: SeriesOfRun) {
    const row = state === undefined ? undefined : allRows(this.#seriesOf, name, state.runKey)[0];
    if (state === undefined || row === undefined) {
      if ((BASE_SERIES as readonly string[]).includes(name)) return undefined;
      throw new MosaicError("not_found", `run ${runId} has no series "${name}"`);
    }
    const [series, points, lastSeq] = row as [number, number, number];
    const source = this.#rows.source(state.runKey, series, points, lastSeq);
    const starts = this.#rewinds.of(state.runKey, series);
    const base = series <= BASE_SERIES.length;
    const kept = base ? state.firsts[series === 1 ? "steps" : "episodes"] : undefined;
    const stepAt = (x: number) => source.points(x, x)[0]?.step ?? 0;
    const parts = partsOf(starts, points, base ? undefined : stepAt);
    return { parts, source, points, base, kept, rewound: starts.length > 0 };
  }
}
