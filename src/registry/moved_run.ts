/** A run's rows of registry.db in a database of their own, to move the run to another host. */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { copied } from "../os/database/copied_rows.ts";
import { hashOfText } from "./code/code_rows.ts";
import { isAlias, isArtifactName } from "./lineage/lineage_rows.ts";
import { migrate } from "./migrations.ts";

const TABLES = [
  ...["runs", "transitions", "events", "artifacts", "parameters", "parameters_due", "placements"],
  ...["slurm_defaults_due", "run_code", "artifact_uses"],
];
/** Columns that the receiving registry numbers anew. */
const OWN_NUMBERS = ["seq"];
/** Columns that mean nothing on another host: processes, and the token of the proxy. */
const OF_HOST = ["proxy", "worker", "session_token"];
const OF_PARENT = ["parent", "child_key"];

/** The runs within a run, oldest first. */
export function childIdsOf(db: DatabaseSync, runId: string): string[] {
  return db.prepare(
    "SELECT run_id FROM runs WHERE parent = ? AND deleted_at IS NULL ORDER BY rowid",
  )
    .all(runId).map(({ run_id }) => String(run_id));
}

/**
 * Writes the run's rows by `insert`, without the columns that mean nothing on another host, and
 * then those of the runs within it. A run within one that moves alone is within none there.
 */
export function copyRun(
  from: DatabaseSync,
  runId: string,
  insert: (sql: string, ...values: SQLInputValue[]) => void,
): void {
  copyOne(from, runId, insert, [...OF_HOST, ...OF_PARENT]);
  for (const child of childIdsOf(from, runId)) copyOne(from, child, insert, OF_HOST);
}

function copyOne(
  from: DatabaseSync,
  runId: string,
  insert: (sql: string, ...values: SQLInputValue[]) => void,
  ofHost: readonly string[],
): void {
  for (const table of TABLES) {
    const numbered = table === "transitions" || table === "events";
    const left = [...(numbered ? OWN_NUMBERS : []), ...(table === "runs" ? ofHost : [])];
    // "deleted" events stay: they belong to an earlier run of this id on that host.
    const also = table === "events" ? "kind <> 'deleted'" : "true";
    const { rows, insert: sql } = copied(from, table, "run_id", runId, left, also);
    for (const row of rows()) insert(sql, ...row);
  }
  const bodies = from.prepare(
    "SELECT hash, body FROM code_texts WHERE hash IN (SELECT environment FROM run_code WHERE run_id = ?1 UNION SELECT diff FROM run_code WHERE run_id = ?1)",
  );
  for (
    const { hash, body } of bodies.iterate(runId) as Iterable<{ hash: string; body: Uint8Array }>
  ) {
    // Runs of this host with the same hash must not get another's text.
    if (hashOfText(body) === hash) {
      insert("INSERT OR IGNORE INTO code_texts (hash, body) VALUES (?, ?)", hash, body);
    }
  }
  copyNames(from, runId, insert);
  // The other host's engine may have other jobs with these ids, so it must never be asked for them.
  insert("UPDATE placements SET phase = 'ended' WHERE run_id = ?", runId);
}

/**
 * The names of what the run has written. There a name that is taken stays as it is: a number that
 * another content has is not given again, and an alias does not move.
 */
function copyNames(
  from: DatabaseSync,
  runId: string,
  insert: (sql: string, ...values: SQLInputValue[]) => void,
): void {
  const versions = from.prepare(
    `SELECT v.name, v.version, v.sha256, a.path, v.bytes, v.at FROM artifact_versions v
      JOIN artifacts a ON a.sha256 = v.sha256 AND a.run_id = ? ORDER BY v.name, v.version`,
  ).all(runId) as Record<string, SQLInputValue>[];
  for (const { name, version, sha256, path, bytes, at } of versions) {
    // From a file of another host.
    if (!isArtifactName(String(name))) continue;
    insert(
      `INSERT OR IGNORE INTO artifact_versions (name, version, sha256, run_id, path, bytes, at)
       SELECT ?1, CASE WHEN EXISTS (SELECT 1 FROM artifact_versions WHERE name = ?1 AND version = ?2)
         THEN (SELECT max(version) + 1 FROM artifact_versions WHERE name = ?1) ELSE ?2 END,
         ?3, ?4, ?5, ?6, ?7
       WHERE NOT EXISTS (SELECT 1 FROM artifact_versions WHERE name = ?1 AND sha256 = ?3)`,
      ...[name!, version!, sha256!, runId, path!, bytes!, at!],
    );
    const aliases = from.prepare(
      "SELECT alias FROM artifact_aliases WHERE name = ? AND version = ?",
    ).all(name!, version!) as { alias: string }[];
    for (const { alias } of aliases.filter((one) => isAlias(one.alias))) {
      insert(
        `INSERT OR IGNORE INTO artifact_aliases (name, alias, version)
         SELECT name, ?2, version FROM artifact_versions WHERE name = ?1 AND sha256 = ?3`,
        ...[name!, alias, sha256!],
      );
    }
  }
}

/** @param to an empty database @param path of it, for messages */
export function extractRun(
  from: DatabaseSync,
  runId: string,
  to: DatabaseSync,
  path: string,
): void {
  migrate(to, path);
  to.exec("BEGIN");
  copyRun(from, runId, (sql, ...values) => void to.prepare(sql).run(...values));
  to.exec("COMMIT");
}
