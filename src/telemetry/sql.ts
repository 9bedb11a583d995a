/**
 * Queries of mosaic.sqlite by people: read-only, with the texts of steps in blocks as columns of
 * `run_steps`.
 */
import type { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../base/errors.ts";
import { readDatabase } from "../os/database/read_database.ts";
import { infoIfThere } from "../os/files/files.ts";
import { RECORDS, TELEMETRY_KINDS } from "../records/record_fields.ts";
import { createView } from "./tables/added_columns.ts";
import { StepBlocks } from "./blocks/step_blocks.ts";
import { SCHEMA_VERSION } from "./tables/tables.ts";
import { BUSY_TIMEOUT_MS } from "./commit/checkpoints.ts";
import type { StoredStep } from "../gen/records/record_types.ts";

/**
 * Runs one statement; runs in the trash are left out. Integers that a number cannot hold are texts,
 * blobs are hexadecimal texts.
 * @param damaged called for blocks whose steps are omitted because they cannot be read
 * @param registry path of registry.db, which may be missing: it says which runs are in the trash
 * @throws MosaicError `failed_precondition` for a database of another version, `invalid_argument`
 * for a faulty statement
 */
export function query(
  path: string,
  sql: string,
  damaged: (message: string) => void,
  registry?: string,
): Record<string, string | number | null>[] {
  using db = readDatabase(path, BUSY_TIMEOUT_MS);
  const { user_version } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  if (user_version !== SCHEMA_VERSION) {
    throw new MosaicError(
      "failed_precondition",
      `telemetry database ${path} has schema ${user_version}, this mosaic reads ${SCHEMA_VERSION}`,
      { hint: "Start this mosaic's daemon once: it brings the database to its version." },
    );
  }
  // The functions below read by the same connection, so they see what the statement sees, whatever
  // a daemon commits meanwhile.
  const runId = db.prepare("SELECT run_id FROM telemetry_runs WHERE run_key = ?");
  const reported = new Set<string>();
  const blocks = new StepBlocks(db, (runKey, first, last, why) => {
    const of = `steps ${first} to ${last} (${last - first + 1}) of run ${
      runId.get(runKey)?.run_id
    }`;
    const message = `${of} are damaged and left out (${why}): run mosaic doctor`;
    // A statement may visit a block several times.
    if (!reported.has(message)) damaged(message);
    reported.add(message);
  });
  let step: StoredStep | undefined;
  let at = "";
  // It must not throw: the runtime does not recover from that.
  db.function("step_text", { deterministic: true }, (runKey, seq, key) => {
    if (at !== `${runKey}:${seq}`) {
      [step] = blocks.read(Number(runKey), Number(seq) - 1, 1, Infinity).rows;
      at = `${runKey}:${seq}`;
    }
    return step?.seq === Number(seq) ? String(step[key as keyof StoredStep]) || null : null;
  });
  db.function(
    "is_whole_block",
    { deterministic: true },
    (runKey, first) => Number(blocks.isWhole(Number(runKey), Number(first))),
  );
  // The temporary ones are found before those of the file.
  db.exec(`CREATE TEMP VIEW telemetry_runs AS SELECT * FROM main.telemetry_runs
    WHERE run_id NOT IN (SELECT value FROM json_each('${JSON.stringify(deletedRuns(registry))}'))`);
  for (const kind of TELEMETRY_KINDS) {
    db.exec(createView(kind, SCHEMA_VERSION, RECORDS, {
      text: ({ key }, seq) => `step_text(b.run_key, ${seq}, '${key}')`,
      isWhole: "is_whole_block(b.run_key, b.first_seq)",
    }));
  }
  try {
    const statement = db.prepare(sql);
    statement.setReadBigInts(true);
    return statement.all().map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)]))
    );
  } catch (error) {
    const { message } = error as Error;
    const hint = /^no such (?:table|column)/.test(message) ? { hint: viewsText(db) } : {};
    throw new MosaicError("invalid_argument", `the query failed: ${message}`, {
      cause: error,
      ...hint,
    });
  }
}

/** The runs in the trash; none in a registry of a version before there was one. */
function deletedRuns(registry: string | undefined): string[] {
  if (registry === undefined || infoIfThere(registry) === undefined) return [];
  using db = readDatabase(registry, BUSY_TIMEOUT_MS);
  const trash = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'runs_deleted'").get();
  if (trash === undefined) return [];
  return db.prepare("SELECT run_id FROM runs WHERE deleted_at IS NOT NULL").all().map((
    { run_id },
  ) => String(run_id));
}

/** The available views: "run_steps (seq, run_id, …), run_episodes (…)". */
function viewsText(db: DatabaseSync): string {
  const views = ["run_steps", "run_episodes", "run_events", "run_metrics"].map((view) => {
    const columns = db.prepare("SELECT name FROM pragma_table_info(?)").all(view).map(({ name }) =>
      name
    );
    return `${view} (${columns.join(", ")})`;
  });
  return `There are ${
    views.join(", ")
  }. Names, states and tags of runs are not in telemetry: mosaic list -o json.`;
}

function plain(value: unknown): string | number | null {
  if (value instanceof Uint8Array) return value.toHex();
  if (typeof value !== "bigint") return value as string | number | null;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
