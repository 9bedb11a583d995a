/**
 * Compares a run's counters with its rows, and finds rows that belong to no run: the effects of a
 * damaged page. Only reads (except dropUnknownRecords) and opens nothing itself, so that it also
 * works on a copy and beside a daemon.
 */
import type { DatabaseSync } from "node:sqlite";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import { LEVEL_SIZES } from "../series/rollup.ts";
import { BASE_SERIES } from "../series/series_rows.ts";
import { damagedRows } from "../tables/row_checksums.ts";
import { damagedSteps } from "../blocks/step_blocks.ts";

export interface StoredRun {
  runId: string;
  /** The newest attempt with stored records. */
  attempt: number;
  /** Stored bytes of each attempt's journal. */
  positions: Map<number, number>;
  /** How far each observed file is stored, by attempt; without damaged cursors. */
  cursors: Map<number, SourceCursor[]>;
  /** Attempts with a damaged cursor. */
  lostCursors: Set<number>;
  /**
   * Number of rows that its counters include and that do not exist, by kind; only kinds with
   * missing rows.
   */
  missing: Partial<
    Record<
      "steps" | "episodes" | "events" | "metrics" | "series" | "sources" | "parameters" | "cursors",
      number
    >
  >;
  /**
   * The counters are damaged. Nothing can be compared with them until the rows are counted again.
   */
  miscounted: boolean;
  /** Seqs of damaged records, whose rows exist; they count as missing. */
  damaged: Record<"steps" | "episodes" | "events", Set<number>>;
}

/** Tables of records, with the counter and the first seq of each in telemetry_runs. */
const RECORDS = [
  ["steps", "steps", "steps", "first_step"],
  ["episodes", "episodes", "episodes", "first_episode"],
  ["events", "worker_events", "events", "first_event"],
  ["metrics", "metrics", "metrics", "first_metric"],
] as const;

/** The kind for rows of other tables. */
const KIND_OF: Record<string, string> = {
  ...{
    worker_events: "events",
    series_buckets: "series",
    series_starts: "series",
    source_cursors: "cursors",
  },
};

/**
 * What is stored of each run. Reads every index page once: minutes for hundreds of millions of
 * records.
 */
export function storedRuns(db: DatabaseSync): Map<string, StoredRun> {
  const byKey = new Map<number, StoredRun>();
  const note = (key: number, kind: keyof StoredRun["missing"], missing: number) => {
    const run = byKey.get(key);
    if (run === undefined || run.miscounted) return;
    if (missing > 0) run.missing[kind] = (run.missing[kind] ?? 0) + missing;
  };
  const runs = db.prepare("SELECT run_key, run_id, attempt FROM telemetry_runs WHERE deleting = 0")
    .all();
  for (const { run_key, run_id, attempt } of runs) {
    byKey.set(Number(run_key), {
      runId: String(run_id),
      attempt: Number(attempt),
      positions: new Map(),
      cursors: new Map(),
      lostCursors: new Set(),
      missing: {},
      miscounted: false,
      damaged: { steps: new Set(), episodes: new Set(), events: new Set() },
    });
  }
  for (
    const { run_key, attempt, position } of db.prepare("SELECT * FROM journal_positions").all()
  ) {
    byKey.get(Number(run_key))?.positions.set(Number(attempt), Number(position));
  }
  // A database of an earlier version has no such table.
  const observes =
    db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'source_cursors'").get() !== undefined;
  const cursors =
    "SELECT run_key, attempt, source AS name, label, serial, state FROM source_cursors";
  for (const { run_key, attempt, ...cursor } of observes ? db.prepare(cursors).all() : []) {
    const run = byKey.get(Number(run_key));
    const own = run?.cursors.get(Number(attempt)) ?? [];
    run?.cursors.set(Number(attempt), [...own, cursor as unknown as SourceCursor]);
  }
  const damaged = [...damagedRows(db)];
  for (const { runKey, table } of damaged) {
    const run = byKey.get(runKey);
    if (run !== undefined && table === "telemetry_runs") run.miscounted = true;
  }
  const keys = new Map([...byKey].map(([key, { runId }]) => [runId, key]));
  for (const { runId, first, last } of damagedSteps(db)) {
    note(keys.get(runId)!, "steps", last - first + 1);
  }
  for (const [kind, table, head, first] of RECORDS) {
    if (kind === "steps") continue;
    const rows = db.prepare(
      `SELECT run_key, ${head} - ${first} + 1 - (SELECT count(*) FROM ${table} t
        WHERE t.run_key = r.run_key AND t.seq BETWEEN ${first} AND ${head}) AS missing
      FROM telemetry_runs r WHERE deleting = 0`,
    ).all();
    for (const { run_key, missing } of rows) note(Number(run_key), kind, Number(missing));
  }
  const withoutSource = (run: StoredRun, runKey: number, source: number) => {
    note(runKey, "sources", 1);
    for (const kind of ["steps", "episodes"] as const) {
      const of = db.prepare(`SELECT seq FROM ${kind} WHERE run_key = ? AND source = ?`).all(
        runKey,
        source,
      );
      for (const { seq } of of) run.damaged[kind].add(Number(seq));
    }
  };
  for (const { runKey, table, row } of damaged) {
    const run = byKey.get(runKey);
    if (run === undefined || run.miscounted) continue;
    const seq = Number(row.seq);
    if (table === "journal_positions") {
      run.positions.delete(Number(row.attempt));
    } else if (table === "sources") {
      withoutSource(run, runKey, Number(row.source));
    } else {
      const kind = KIND_OF[table] ?? table;
      if (kind === "cursors") {
        const attempt = Number(row.attempt);
        run.lostCursors.add(attempt);
        run.cursors.set(
          attempt,
          run.cursors.get(attempt)!.filter(({ name }) => name !== row.source),
        );
      }
      note(runKey, kind as keyof StoredRun["missing"], 1);
      if (kind in run.damaged) run.damaged[kind as keyof StoredRun["damaged"]].add(seq);
    }
  }
  for (const { run_key, source } of lostSources(db)) {
    const run = byKey.get(Number(run_key));
    if (run !== undefined && !run.miscounted) withoutSource(run, Number(run_key), Number(source));
  }
  // Closed buckets of the rollups, from the number of a series' points.
  const buckets = db.prepare(
    "SELECT count(*) AS n FROM series_buckets WHERE run_key = ? AND series = ?",
  );
  const series = db.prepare(
    `SELECT run_key, 1 AS series, steps AS points FROM telemetry_runs WHERE deleting = 0
      UNION ALL SELECT run_key, 2, episodes FROM telemetry_runs WHERE deleting = 0
      UNION ALL SELECT run_key, ${BASE_SERIES.length}, episodes FROM telemetry_runs WHERE deleting = 0
      UNION ALL SELECT run_key, series, points FROM series WHERE series > ${BASE_SERIES.length}`,
  ).all() as { run_key: number; series: number; points: number }[];
  for (const one of series) {
    const expected = LEVEL_SIZES.slice(1).reduce(
      (sum, size) => sum + Math.floor(one.points / size),
      0,
    );
    note(one.run_key, "series", expected - Number(buckets.get(one.run_key, one.series)!.n));
  }
  // Earlier versions had no rows for the series that every run has.
  if (observes) { for (const { run_key } of lostSeries(db)) note(Number(run_key), "series", 1); }
  return new Map([...byKey.values()].map((run) => [run.runId, run]));
}

/** Series that have points or buckets but no row: their names are lost. */
function lostSeries(db: DatabaseSync): Record<string, unknown>[] {
  const base = ["steps", "episodes", "episodes"].map((points, i) =>
    `SELECT run_key, ${i + 1} AS series FROM telemetry_runs WHERE deleting = 0 AND ${points} > 0`
  );
  return db.prepare(
    `SELECT run_key, series FROM (
      ${
      base.join(" UNION ")
    } UNION SELECT run_key, series FROM metrics UNION SELECT run_key, series FROM series_buckets
    ) WHERE (run_key, series) NOT IN (SELECT run_key, series FROM series)`,
  ).all();
}

/**
 * Sources that records name and that have no row: the records have lost their source. 0 means no
 * source.
 */
function lostSources(db: DatabaseSync): Record<string, unknown>[] {
  const blocks =
    db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'step_blocks'").get() === undefined
      ? ""
      : `
      UNION SELECT run_key, source FROM step_blocks WHERE typeof(source) = 'integer'
      UNION SELECT b.run_key, json_extract(j.value, b.source) FROM step_blocks b JOIN json_each(b.hot) j
        WHERE typeof(b.source) = 'text' AND json_valid(b.hot)`;
  return db.prepare(
    `SELECT run_key, source FROM (
      SELECT run_key, source FROM steps UNION SELECT run_key, source FROM episodes${blocks}
    ) WHERE source > 0 AND (run_key, source) NOT IN (SELECT run_key, source FROM sources)`,
  ).all();
}

/**
 * Deletes rows of runs that have no row of their own, and rows beyond their run's counters.
 * @returns how many
 */
export function dropUnknownRecords(db: DatabaseSync): number {
  const tables = new Set(
    db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map((row) => row.name),
  );
  if (!tables.has("telemetry_runs")) return 0;
  let dropped = 0;
  const others = [
    ...[
      "step_blocks",
      "parameters",
      "series_buckets",
      "series",
      "series_starts",
      "sources",
      "journal_positions",
    ],
    "source_cursors",
  ];
  for (const table of [...RECORDS.map(([, table]) => table), ...others]) {
    if (!tables.has(table)) continue;
    const sql = `DELETE FROM ${table} WHERE run_key NOT IN (SELECT run_key FROM telemetry_runs)`;
    dropped += Number(db.prepare(sql).run().changes);
  }
  for (const [, table, head] of RECORDS) {
    const sql = `DELETE FROM ${table} WHERE seq > (SELECT ${head} FROM telemetry_runs r
      WHERE r.run_key = ${table}.run_key)`;
    dropped += Number(db.prepare(sql).run().changes);
  }
  if (tables.has("step_blocks")) {
    const sql =
      `DELETE FROM step_blocks WHERE first_seq + n - 1 > (SELECT steps FROM telemetry_runs r
      WHERE r.run_key = step_blocks.run_key)`;
    dropped += Number(db.prepare(sql).run().changes);
  }
  return dropped;
}
