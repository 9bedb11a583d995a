/**
 * Tables of mosaic.sqlite. Migrations are numbered by their position and append-only: a published
 * one never changes. A version's statements here are followed by the columns of fields that name
 * the version (src/records/record_fields.ts).
 */
import type { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../../base/errors.ts";
import { addedColumns, createView, newestField } from "./added_columns.ts";

const MIGRATIONS: readonly string[] = [
  `
  -- One row a run: counters, and what is needed to go on without looking at the rows.
  CREATE TABLE telemetry_runs (
    run_key INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    attempt INTEGER NOT NULL DEFAULT 0,
    steps INTEGER NOT NULL DEFAULT 0,
    episodes INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    metrics INTEGER NOT NULL DEFAULT 0,
    -- First seq still kept, per kind.
    first_step INTEGER NOT NULL DEFAULT 1,
    first_episode INTEGER NOT NULL DEFAULT 1,
    first_event INTEGER NOT NULL DEFAULT 1,
    first_metric INTEGER NOT NULL DEFAULT 1,
    other_lines INTEGER NOT NULL DEFAULT 0,
    malformed_lines INTEGER NOT NULL DEFAULT 0,
    violations TEXT,
    mean_reward_100 REAL,
    last_record_ms INTEGER,
    -- 1: rows may be large, so reads look at their sizes first.
    wide INTEGER NOT NULL DEFAULT 0,
    -- 1: being deleted; run_id is then a tombstone's.
    deleting INTEGER NOT NULL DEFAULT 0
  );
  -- Bytes of each attempt's journal that are stored: what makes delivery exactly once.
  CREATE TABLE journal_positions (
    run_key INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (run_key, attempt)
  ) WITHOUT ROWID;
  -- Who speaks: the four texts that hardly ever change from step to step, kept once. Source 0 is four empty texts.
  CREATE TABLE sources (
    run_key INTEGER NOT NULL,
    source INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    policy_label TEXT NOT NULL,
    backend TEXT NOT NULL,
    PRIMARY KEY (run_key, source)
  ) WITHOUT ROWID;
  -- reward NULL is NaN. Texts are NULL when empty. 0 and 1 take no byte, so defaults are free.
  CREATE TABLE steps (
    run_key INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    episode INTEGER NOT NULL DEFAULT 0,
    step INTEGER NOT NULL DEFAULT 0,
    reward REAL DEFAULT 0,
    terminated INTEGER NOT NULL DEFAULT 0,
    truncated INTEGER NOT NULL DEFAULT 0,
    ts_ns INTEGER NOT NULL,
    source INTEGER NOT NULL DEFAULT 0,
    action TEXT,
    observation TEXT,
    info TEXT,
    render_hint TEXT,
    render_payload TEXT,
    frame_ref TEXT,
    payload_version INTEGER NOT NULL DEFAULT 0,
    episode_seed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_key, seq)
  ) WITHOUT ROWID;
  CREATE TABLE episodes (
    run_key INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    episode INTEGER NOT NULL DEFAULT 0,
    total_reward REAL DEFAULT 0,
    steps INTEGER NOT NULL DEFAULT 0,
    terminated INTEGER NOT NULL DEFAULT 0,
    truncated INTEGER NOT NULL DEFAULT 0,
    ts_ns INTEGER NOT NULL,
    source INTEGER NOT NULL DEFAULT 0,
    metadata TEXT,
    PRIMARY KEY (run_key, seq)
  ) WITHOUT ROWID;
  CREATE TABLE worker_events (
    run_key INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    kind TEXT NOT NULL,
    ts_ns INTEGER NOT NULL,
    data TEXT,
    PRIMARY KEY (run_key, seq)
  ) WITHOUT ROWID;
  -- A point of a metric. "back" is the distance to the series' previous point (0: it is the first), so that the last
  -- points of one series are found without an index of their own.
  CREATE TABLE metrics (
    run_key INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    series INTEGER NOT NULL,
    back INTEGER NOT NULL,
    step INTEGER NOT NULL,
    ts_ms INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (run_key, seq)
  ) WITHOUT ROWID;
  -- Names of metrics. Series 1, 2 and 3 are reward, episode_reward and episode_length and have no row here.
  CREATE TABLE series (
    run_key INTEGER NOT NULL,
    series INTEGER NOT NULL,
    name TEXT NOT NULL,
    points INTEGER NOT NULL,
    last REAL NOT NULL,
    last_seq INTEGER NOT NULL,
    PRIMARY KEY (run_key, series)
  ) WITHOUT ROWID;
  -- Closed buckets of 32, 1024 and 32768 points (level 1, 2, 3). count is of finite values; last_seq is for metrics.
  CREATE TABLE series_buckets (
    run_key INTEGER NOT NULL,
    series INTEGER NOT NULL,
    level INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    min REAL NOT NULL,
    max REAL NOT NULL,
    sum REAL NOT NULL,
    count INTEGER NOT NULL,
    last REAL NOT NULL,
    ts_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_key, series, level, bucket)
  ) WITHOUT ROWID;

  -- For people with sqlite3: SELECT * FROM run_steps WHERE run_id = '…' AND seq BETWEEN 1 AND 10.
  CREATE VIEW run_steps AS
    SELECT r.run_id, s.seq, s.attempt, s.episode AS episode_index, s.step AS step_index, s.action, s.observation,
      s.reward, s.terminated, s.truncated, strftime('%Y-%m-%dT%H:%M:%fZ', s.ts_ns / 1e9, 'unixepoch') AS timestamp,
      s.ts_ns, o.agent_id, o.worker_id, o.policy_label, o.backend, s.info, s.render_hint, s.render_payload, s.frame_ref,
      s.payload_version, s.episode_seed
    FROM telemetry_runs r JOIN steps s USING (run_key) LEFT JOIN sources o USING (run_key, source);
  CREATE VIEW run_episodes AS
    SELECT r.run_id, e.seq, e.attempt, e.episode AS episode_index, e.total_reward, e.steps, e.terminated, e.truncated,
      strftime('%Y-%m-%dT%H:%M:%fZ', e.ts_ns / 1e9, 'unixepoch') AS timestamp, e.ts_ns, o.agent_id, o.worker_id,
      e.metadata
    FROM telemetry_runs r JOIN episodes e USING (run_key) LEFT JOIN sources o USING (run_key, source);
  CREATE VIEW run_events AS
    SELECT r.run_id, e.seq, e.attempt, e.kind, e.data AS payload,
      strftime('%Y-%m-%dT%H:%M:%fZ', e.ts_ns / 1e9, 'unixepoch') AS timestamp, e.ts_ns
    FROM telemetry_runs r JOIN worker_events e USING (run_key);
  CREATE VIEW run_metrics AS
    SELECT r.run_id, m.seq, n.name, m.value, m.step,
      strftime('%Y-%m-%dT%H:%M:%fZ', m.ts_ms / 1e3, 'unixepoch') AS timestamp
    FROM telemetry_runs r JOIN metrics m USING (run_key) JOIN series n USING (run_key, series);
  `,
  // Buckets of 32, 256, 2048, 16384 and 131072 points (level 1 to 5); earlier there were levels of
  // 1024 and 32768.
  ["DELETE FROM series_buckets WHERE level > 1;", ...[2, 3, 4, 5].map(bucketsFromLevelBelow)].join(
    "\n",
  ),
  `
  -- What events of kind "parameters" say, by source. value is JSON text; seq is that of the event.
  CREATE TABLE parameters (
    run_key INTEGER NOT NULL,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (run_key, source, name)
  ) WITHOUT ROWID;
  CREATE INDEX parameters_by_name ON parameters (name);
  `,
  `
  -- Up to 4096 steps in a row (step_block.ts). Of attempt … episode_seed each is the value that all steps have, or the
  -- JSON path of each step's own in its element of "hot". A time is from_ns + unit_ns * ts; flags: 1 terminated,
  -- 2 truncated. "body" has the texts, compressed; "raw" is its length before that.
  CREATE TABLE step_blocks (
    run_key INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    from_ns INTEGER NOT NULL,
    to_ns INTEGER NOT NULL,
    unit_ns INTEGER NOT NULL,
    attempt, source, ts, flags, episode, step, reward, payload_version, episode_seed,
    hot TEXT NOT NULL,
    raw INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run_key, first_seq)
  );
  DROP VIEW run_steps;
  ${createView("steps", 4)}
  `,
  // finite: number of values that min, max and sum cover; NULL if unknown yet (store/summaries.ts).
  `
  ALTER TABLE series ADD COLUMN min REAL;
  ALTER TABLE series ADD COLUMN max REAL;
  ALTER TABLE series ADD COLUMN sum REAL NOT NULL DEFAULT 0;
  ALTER TABLE series ADD COLUMN finite INTEGER;
  ALTER TABLE series ADD COLUMN min_step INTEGER;
  ALTER TABLE series ADD COLUMN max_step INTEGER;
  CREATE INDEX series_by_name ON series (name, run_key);
  CREATE INDEX series_unsummarised ON series (run_key) WHERE finite IS NULL;
  -- From here on the series that every run has are rows, too.
  INSERT INTO series (run_key, series, name, points, last, last_seq)
    SELECT run_key, 1, 'reward', steps, 0, 0 FROM telemetry_runs WHERE steps > 0
    UNION ALL SELECT run_key, 2, 'episode_reward', episodes, 0, 0 FROM telemetry_runs WHERE episodes > 0
    UNION ALL SELECT run_key, 3, 'episode_length', episodes, 0, 0 FROM telemetry_runs WHERE episodes > 0;
  `,
  `
  -- How far each observed file is stored, besides the journal: "serial" counts its batches, "state" is its proxy's.
  CREATE TABLE source_cursors (
    run_key INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    source TEXT NOT NULL,
    label TEXT NOT NULL,
    serial INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (run_key, attempt, source)
  ) WITHOUT ROWID;
  -- Which source the series' points come from, and in which attempt.
  ALTER TABLE series ADD COLUMN label TEXT NOT NULL DEFAULT '';
  ALTER TABLE series ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
  -- The highest step that a metric told.
  ALTER TABLE telemetry_runs ADD COLUMN told_step INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- Where each attempt after the first begins in a series: the number of its first point, and the position of that
  -- (the worker's step; of steps and episodes their number, less those that were overwritten).
  CREATE TABLE series_starts (
    run_key INTEGER NOT NULL,
    series INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    first INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (run_key, series, attempt)
  ) WITHOUT ROWID;
  `,
  "-- From here on a column of texts in a block may be numbers (text_column.ts).",
  `
  -- The worker's step at the last point: a chart of a thousand runs has no time to look it up among the points. NULL for
  -- series without steps, and in buckets of earlier versions.
  ALTER TABLE series_buckets ADD COLUMN step INTEGER;
  `,
  // row_checksums.ts
  [
    "steps",
    "episodes",
    "worker_events",
    "metrics",
    "series_buckets",
    "sources",
    "journal_positions",
  ].map((table) => `ALTER TABLE ${table} ADD COLUMN crc INTEGER;`).join("\n"),
  `
  -- The last value of the metric that is most surely the reward of episodes (progress_series.ts), and its name.
  ALTER TABLE telemetry_runs ADD COLUMN told_reward REAL;
  ALTER TABLE telemetry_runs ADD COLUMN told_reward_name TEXT;
  `,
  "ALTER TABLE telemetry_runs ADD COLUMN crc INTEGER;",
  ["series", "series_starts", "parameters", "source_cursors"].map((table) =>
    `ALTER TABLE ${table} ADD COLUMN crc INTEGER;`
  )
    .join("\n"),
  `
  -- From here on the rows of a block may be in spans: "hot" then has, for each, [rows before it, the first one's episode,
  -- its step] and its rows. A column that is 'span' is the head's episode, or the head's step and one more for each row.
  DROP VIEW run_steps;
  ${createView("steps", 14)}
  `,
  `
  -- The series with the same points, more exactly, by another source; 0: there is none (twins.ts); NULL: none is known.
  ALTER TABLE series ADD COLUMN copy_of INTEGER;
  `,
];

function bucketsFromLevelBelow(level: number): string {
  const below =
    `FROM series_buckets b WHERE (b.run_key, b.series, b.level) = (g.run_key, g.series, ${
      level - 1
    })
      AND b.bucket BETWEEN g.its * 8 AND g.its * 8 + 7`;
  return `INSERT INTO series_buckets
    SELECT run_key, series, ${level}, its, least, most, total, points,
      ifnull((SELECT b.last ${below} AND b.count > 0 ORDER BY b.bucket DESC LIMIT 1), 0),
      (SELECT b.ts_ms ${below} ORDER BY b.bucket DESC LIMIT 1),
      (SELECT b.last_seq ${below} ORDER BY b.bucket DESC LIMIT 1)
    FROM (
      SELECT run_key, series, bucket / 8 AS its, min(min) AS least, max(max) AS most, sum(sum) AS total,
        sum(count) AS points
      FROM series_buckets WHERE level = ${
    level - 1
  } GROUP BY run_key, series, bucket / 8 HAVING count(*) = 8
    ) g;`;
}

export const SCHEMA_VERSION = Math.max(MIGRATIONS.length, newestField());

/**
 * Brings the database to this program's schema. @throws MosaicError `failed_precondition` when it
 * is newer.
 */
export function migrate(db: DatabaseSync, path: string, to = SCHEMA_VERSION): void {
  const { user_version } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  if (user_version > SCHEMA_VERSION) {
    throw new MosaicError(
      "failed_precondition",
      `telemetry database ${path} has schema ${user_version}, this mosaic knows ${SCHEMA_VERSION} at most`,
      { hint: "Run the newer mosaic that wrote it, or give another --state-dir." },
    );
  }
  for (let version = user_version; version < to; version++) {
    db.exec("BEGIN IMMEDIATE");
    try {
      db.exec(`${MIGRATIONS[version] ?? ""}${addedColumns(version + 1)}`);
      db.exec(`PRAGMA user_version = ${version + 1}`);
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
}
