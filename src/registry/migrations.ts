/**
 * The schema of registry.db as numbered steps. The list is append-only: a released step is never
 * edited, because existing databases have run it. The result is checked against
 * tests/registry/fixtures/schema.sql.
 */
import type { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import {
  RUN_FIELDS,
  type RunField,
  type RunFieldKind,
  storedFields,
} from "../runs/fields/run_fields.ts";
import { explainSqlite } from "./sqlite.ts";

export interface Migration {
  /** 1, 2, 3 …; what `PRAGMA user_version` is afterwards. */
  version: number;
  sql: string;
}

const STEPS: readonly Migration[] = [
  {
    version: 1,
    sql: `
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  tags TEXT NOT NULL,
  base_dir TEXT NOT NULL,
  gpus_requested INTEGER NOT NULL,
  gpus_mandatory INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  last_heartbeat_at INTEGER,
  not_before INTEGER,
  outcome TEXT,
  reason TEXT,
  hint TEXT,
  exit_code INTEGER,
  exit_signal TEXT,
  stderr_tail TEXT NOT NULL DEFAULT '[]',
  cancel_requested_at INTEGER,
  cancel_reason TEXT,
  fault_requested TEXT,
  pause_requested INTEGER NOT NULL DEFAULT 0,
  max_rate_hz REAL NOT NULL DEFAULT 0,
  proxy TEXT,
  worker TEXT,
  worker_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_token TEXT,
  worker_kind TEXT,
  proto_version TEXT,
  schema_id TEXT,
  schema_version INTEGER,
  supports_pause INTEGER NOT NULL DEFAULT 0,
  supports_checkpoint INTEGER NOT NULL DEFAULT 0,
  resume_from TEXT,
  config_json TEXT NOT NULL
) STRICT;
CREATE INDEX runs_newest ON runs (created_at, run_id, state, name, tags);
CREATE INDEX runs_by_state ON runs (state, created_at, run_id);
CREATE INDEX runs_by_digest ON runs (digest, created_at, run_id);
CREATE INDEX runs_by_name ON runs (name, created_at, run_id);

CREATE TABLE transitions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  from_state TEXT,
  to_state TEXT NOT NULL,
  event TEXT NOT NULL,
  reason TEXT,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX transitions_by_run ON transitions (run_id, seq);

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  run_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  data_json TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run_id, seq);

CREATE TABLE gpu_slots (
  slot INTEGER PRIMARY KEY,
  run_id TEXT REFERENCES runs (run_id) ON DELETE SET NULL,
  offered INTEGER NOT NULL
) STRICT;
CREATE INDEX gpu_slots_by_run ON gpu_slots (run_id);

CREATE TABLE artifacts (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  step INTEGER,
  at INTEGER NOT NULL,
  PRIMARY KEY (run_id, path)
) STRICT;
CREATE INDEX artifacts_unhashed ON artifacts (run_id) WHERE sha256 = '';
`,
  },
  {
    version: 2,
    sql: `
-- What config and command line say; what the program says itself is in the telemetry database. value is JSON text.
CREATE TABLE parameters (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, source, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX parameters_by_name ON parameters (name);
-- Runs from before there were parameters: the daemon reads their configs in the background.
CREATE TABLE parameters_due (
  run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO parameters_due SELECT run_id FROM runs;
`,
  },
  {
    version: 3,
    sql: `
CREATE TABLE placements (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  launcher TEXT NOT NULL,
  tries INTEGER NOT NULL,
  name TEXT NOT NULL,
  job TEXT,
  submitted_at INTEGER,
  phase TEXT NOT NULL,
  waiting_for TEXT NOT NULL,
  expected_start INTEGER,
  nodes TEXT NOT NULL,
  gpus TEXT NOT NULL,
  ended TEXT,
  requested_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, attempt)
) STRICT;
CREATE INDEX placements_open ON placements (run_id) WHERE phase <> 'ended';
`,
  },
  { version: 4, sql: "ALTER TABLE runs ADD COLUMN notes TEXT NOT NULL DEFAULT ''" },
  {
    version: 5,
    sql: `
-- Deletions that have begun: they are finished by the next daemon where this one does not.
CREATE TABLE deletions (
  run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
`,
  },
  {
    version: 6,
    sql: `
-- Tokens of attempts that are over, by their hashes: whoever shows one is told so.
CREATE TABLE past_tokens (
  hash TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX past_tokens_by_run ON past_tokens (run_id);
`,
  },
  {
    version: 7,
    sql: `
-- Runs whose configs have no defaults of --slurm in them, which earlier versions looked up at each placement. The next daemon
-- enters its own.
CREATE TABLE slurm_defaults_due (
  run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO slurm_defaults_due SELECT run_id FROM runs
  WHERE CASE WHEN json_valid(config_json) THEN json_extract(config_json, '$.metadata.launcher') = 'slurm' END;
`,
  },
  {
    version: 8,
    sql: `
-- The page reads all alerts whenever the list of runs is opened: they are few among many events.
CREATE INDEX events_alerts ON events (seq) WHERE kind = 'alert';
`,
  },
  {
    version: 9,
    sql: `
-- The window that shows a video, as its record says; "" for none.
ALTER TABLE artifacts ADD COLUMN window_id TEXT NOT NULL DEFAULT '';
`,
  },
  {
    version: 10,
    sql: `
-- The slot's card or MIG device: its number may change while a run holds it. "" if unknown.
ALTER TABLE gpu_slots ADD COLUMN uuid TEXT NOT NULL DEFAULT '';
`,
  },
  {
    version: 11,
    sql: `
-- What ran: at the submission (attempt 0) and at the start of each attempt. The columns with hashes name texts.
CREATE TABLE run_code (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  code_json TEXT NOT NULL,
  environment TEXT NOT NULL,
  diff TEXT NOT NULL,
  PRIMARY KEY (run_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_code_by_environment ON run_code (environment);
CREATE INDEX run_code_by_diff ON run_code (diff);
-- Many runs have the same environment and the same diff. hash: SHA-256 of body, which is zstd.
CREATE TABLE code_texts (
  hash TEXT PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;
CREATE TRIGGER run_code_deleted AFTER DELETE ON run_code BEGIN
  DELETE FROM code_texts WHERE hash IN (OLD.environment, OLD.diff)
    AND NOT EXISTS (SELECT 1 FROM run_code WHERE environment = hash)
    AND NOT EXISTS (SELECT 1 FROM run_code WHERE diff = hash);
END;
`,
  },
  {
    version: 12,
    sql: `
CREATE TABLE sweeps (
  sweep_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  spec_json TEXT NOT NULL,
  submitter TEXT NOT NULL,
  -- Trials 0 to next_trial - 1 are made: each has a row in sweep_trials.
  next_trial INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Entered in the transaction that enters the trial's run. It stays when the run is deleted: no trial is made twice.
CREATE TABLE sweep_trials (
  sweep_id TEXT NOT NULL REFERENCES sweeps (sweep_id) ON DELETE CASCADE,
  trial INTEGER NOT NULL,
  -- NULL: the daemon refused its config, for the reason in refusal.
  run_id TEXT,
  refusal TEXT,
  PRIMARY KEY (sweep_id, trial)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sweep_trials_by_run ON sweep_trials (run_id) WHERE run_id IS NOT NULL;
-- The log from which early stopping decides: the value of a trial at a rung, with the decision about the trial.
CREATE TABLE sweep_reports (
  sweep_id TEXT NOT NULL REFERENCES sweeps (sweep_id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  rung INTEGER NOT NULL,
  step INTEGER NOT NULL,
  -- NULL: not finite.
  value REAL,
  mean REAL,
  best REAL,
  stops INTEGER NOT NULL,
  reason TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (sweep_id, seq)
) STRICT, WITHOUT ROWID;
`,
  },
  {
    version: 13,
    sql: `
-- Time of GPUs by run and day, which outlives the run. measured_ms: their utilisation was known; idle_ms: it was low.
CREATE TABLE gpu_use (
  day INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  run_name TEXT NOT NULL,
  submitter TEXT NOT NULL,
  gpu_ms INTEGER NOT NULL,
  measured_ms INTEGER NOT NULL,
  idle_ms INTEGER NOT NULL,
  PRIMARY KEY (day, run_id)
) STRICT;
-- Until when the holder's time is in gpu_use.
ALTER TABLE gpu_slots ADD COLUMN counted_at INTEGER NOT NULL DEFAULT 0;
`,
  },
  // Columns of this version are in the table of fields.
  { version: 14, sql: "" },
  {
    version: 15,
    sql: `
-- Runs within a run: found by their parent, and made once for each place.
CREATE UNIQUE INDEX runs_within ON runs (parent, child_key) WHERE parent IS NOT NULL;
`,
  },
  {
    version: 16,
    sql: `
-- Runs whose stored records announce trials, since before the first was stored: each record up to seq has its run. Open: there
-- may be more.
CREATE TABLE trial_cursors (
  run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  open INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`,
  },
  // Columns of this version are in the table of fields.
  { version: 17, sql: "" },
  {
    version: 18,
    sql: `
UPDATE runs SET owner = coalesce(json_extract(config_json, '$.metadata.submitted_by'), '') WHERE json_valid(config_json);
UPDATE runs SET owner = (SELECT p.owner FROM runs p WHERE p.run_id = runs.parent) WHERE parent IN (SELECT run_id FROM runs);
`,
  },
  // Columns of this version are in the table of fields.
  { version: 19, sql: "" },
  {
    version: 20,
    sql: `
-- The trash: few among many runs, and looked up by each read of events.
CREATE INDEX runs_deleted ON runs (deleted_at, run_id) WHERE deleted_at IS NOT NULL;
`,
  },
  {
    version: 21,
    sql: `
-- What runs have read of others. source_run may be deleted since; '': nothing of this name was there.
CREATE TABLE artifact_uses (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  source_run TEXT NOT NULL,
  source_name TEXT NOT NULL,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  given TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (run_id, source_run, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_uses_by_source ON artifact_uses (source_run);
-- Names of contents. They stay when the run is deleted: another may have a file with the content.
CREATE TABLE artifact_versions (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  run_id TEXT NOT NULL,
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (name, version),
  UNIQUE (name, sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact_aliases (
  name TEXT NOT NULL,
  alias TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (name, alias)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_by_content ON artifacts (sha256) WHERE sha256 <> '';
`,
  },
  {
    version: 22,
    sql: `
-- Runs that share a card. A slot with such rows has no run_id.
CREATE TABLE gpu_shares (
  slot INTEGER NOT NULL REFERENCES gpu_slots (slot),
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  part REAL NOT NULL,
  memory_mb REAL,
  counted_at INTEGER NOT NULL,
  PRIMARY KEY (slot, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX gpu_shares_by_run ON gpu_shares (run_id);
`,
  },
  {
    version: 23,
    sql: `
-- When the program's own file was seen to be gone.
ALTER TABLE artifacts ADD COLUMN deleted_at INTEGER;
`,
  },
];

const SQL_TYPES: Partial<Record<RunFieldKind, [type: string, none: string]>> = {
  integer: ["INTEGER", "0"],
  time: ["INTEGER", "0"],
  flag: ["INTEGER", "0"],
  number: ["REAL", "0"],
  texts: ["TEXT", "'[]'"],
};

/**
 * The steps, each followed by the columns of the fields that name its version; a version that only
 * fields name has no more.
 */
export function withColumns(
  steps: readonly Migration[],
  fields: readonly RunField[] = RUN_FIELDS,
): Migration[] {
  const stored = storedFields(fields);
  const newest = Math.max(steps.length, ...stored.map(({ since = 0 }) => since));
  return Array.from({ length: newest }, (_, i) => {
    const version = i + 1;
    const columns = stored.filter(({ since }) => since === version).map(
      ({ column, kind, null: where }) => {
        const [type, none] = SQL_TYPES[kind] ?? ["TEXT", "''"];
        const mayBeNull = where === "row" || where === "both";
        return `ALTER TABLE runs ADD COLUMN ${column} ${type}${
          mayBeNull ? "" : ` NOT NULL DEFAULT ${none}`
        };\n`;
      },
    );
    return {
      version,
      sql: `${steps[i]?.sql ?? ""}${columns.length === 0 ? "" : `;\n${columns.join("")}`}`,
    };
  });
}

export const MIGRATIONS: readonly Migration[] = withColumns(STEPS);

/** The database was written by a newer mosaic; the daemon exits with a code of its own. */
export class NewerSchemaError extends MosaicError {}

/** The schema version of an open database; 0 for an empty one. */
export function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()!.user_version);
}

/**
 * Brings a database to the newest schema, each step in a transaction of its own.
 *
 * @throws {NewerSchemaError} (`failed_precondition`) when it is already newer than this mosaic
 * knows.
 */
export function migrate(
  db: DatabaseSync,
  path: string,
  migrations: readonly Migration[] = MIGRATIONS,
): void {
  try {
    const known = migrations.at(-1)?.version ?? 0;
    const found = schemaVersion(db);
    if (found > known) {
      throw new NewerSchemaError(
        "failed_precondition",
        `${path} has schema version ${found}; this mosaic (${VERSION}) knows versions up to ${known}`,
        { hint: "Run the newer mosaic that wrote it, or give another --state-dir." },
      );
    }
    for (const migration of migrations) {
      if (migration.version <= found) continue;
      db.exec("BEGIN IMMEDIATE");
      try {
        db.exec(migration.sql);
        db.exec(`PRAGMA user_version = ${migration.version}`);
        db.exec("COMMIT");
      } catch (error) {
        if (db.isTransaction) db.exec("ROLLBACK");
        throw error;
      }
    }
  } catch (error) {
    throw explainSqlite(error, path);
  }
}
