/** The rows of lineage: what runs have read of others, and names for the contents of artifacts. */

type SqlValue = string | number | null;
type SqlRow = Record<string, unknown>;

/** The registry's database. */
interface Sql {
  get(sql: string, ...values: SqlValue[]): SqlRow | undefined;
  all(sql: string, ...values: SqlValue[]): SqlRow[];
  run(sql: string, ...values: SqlValue[]): unknown;
}

const NAME = /^[A-Za-z][\w.-]{0,99}$/;
export const VERSION = /^v([1-9]\d{0,8})$/;
export const LATEST = "latest";
export const isArtifactName = (text: string) => NAME.test(text);
export const isAlias = (text: string) => NAME.test(text) && !VERSION.test(text) && text !== LATEST;

/** A run has read an artifact. */
export interface UseRow {
  runId: string;
  /** The run that wrote it, which may be deleted since; "": nothing of this name was there. */
  sourceRun: string;
  sourceName: string;
  /** As of an artifact; of several files below it, their directory. */
  path: string;
  /** Its content at that time; "" if it was not known. */
  sha256: string;
  /** As the run named it. */
  given: string;
  at: number;
}

/** A content that has a name: of one name each content has one version. */
export interface VersionRow {
  name: string;
  /** Counts from 1, and is never given again. */
  version: number;
  aliases: string[];
  sha256: string;
  /** Where the content was when it was named. */
  runId: string;
  path: string;
  bytes: number;
  at: number;
}

const useFrom = (row: SqlRow): UseRow => ({
  runId: String(row.run_id),
  sourceRun: String(row.source_run),
  sourceName: String(row.source_name),
  path: String(row.path),
  sha256: String(row.sha256),
  given: String(row.given),
  at: Number(row.at),
});

export class LineageRows {
  readonly #sql: Sql;
  readonly #write: <T>(work: () => T) => T;
  readonly #now: () => number;

  constructor(sql: Sql, write: <T>(work: () => T) => T, now: () => number) {
    this.#sql = sql;
    this.#write = write;
    this.#now = now;
  }

  /** A use that is known stays as it is: the run may say it again. */
  addUses(runId: string, uses: readonly Omit<UseRow, "runId" | "at">[]): void {
    if (uses.length > 0) this.#write(() => this.enterUses(runId, uses));
  }

  /** Within a transaction. */
  enterUses(runId: string, uses: readonly Omit<UseRow, "runId" | "at">[]): void {
    for (const { sourceRun, sourceName, path, sha256, given } of uses) {
      this.#sql.run(
        `INSERT OR IGNORE INTO artifact_uses (run_id, source_run, source_name, path, sha256, given, at)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
        ...[runId, sourceRun, sourceName, path, sha256, given, this.#now()],
      );
    }
  }

  /** What the run has read, oldest first. */
  usesOf(runId: string): UseRow[] {
    return this.#sql.all(
      "SELECT * FROM artifact_uses WHERE run_id = ? ORDER BY at, source_run, path",
      runId,
    )
      .map(useFrom);
  }

  /** What others have read of the run, oldest first, without those in the trash. */
  usesFrom(sourceRun: string): UseRow[] {
    return this.#sql.all(
      `SELECT u.* FROM artifact_uses u JOIN runs r USING (run_id)
       WHERE u.source_run = ? AND r.deleted_at IS NULL ORDER BY u.at, u.run_id, u.path`,
      sourceRun,
    ).map(useFrom);
  }

  /**
   * A run's file with this content, the newest, not in the trash; undefined if there is none any
   * more.
   */
  fileWith(sha256: string): { runId: string; path: string } | undefined {
    const row = this.#sql.get(
      `SELECT a.run_id, a.path FROM artifacts a JOIN runs r USING (run_id)
       WHERE a.sha256 = ? AND a.sha256 <> '' AND r.deleted_at IS NULL ORDER BY a.at DESC LIMIT 1`,
      sha256,
    );
    return row && { runId: String(row.run_id), path: String(row.path) };
  }

  /** The content's version of that name, an earlier one if it has one; aliases move to it. */
  nameContent(
    content: Pick<VersionRow, "name" | "sha256" | "runId" | "path" | "bytes">,
    aliases: readonly string[],
  ): VersionRow {
    const { name, sha256, runId, path, bytes } = content;
    return this.#write(() => {
      this.#sql.run(
        `INSERT OR IGNORE INTO artifact_versions (name, version, sha256, run_id, path, bytes, at)
         VALUES (?1, (SELECT coalesce(max(version), 0) + 1 FROM artifact_versions WHERE name = ?1), ?2, ?3, ?4, ?5, ?6)`,
        ...[name, sha256, runId, path, bytes, this.#now()],
      );
      const { version } = this.#sql.get(
        "SELECT version FROM artifact_versions WHERE name = ? AND sha256 = ?",
        name,
        sha256,
      ) as { version: number };
      for (const alias of aliases) {
        this.#sql.run(
          `INSERT INTO artifact_aliases (name, alias, version) VALUES (?, ?, ?)
           ON CONFLICT (name, alias) DO UPDATE SET version = excluded.version`,
          ...[name, alias, version],
        );
      }
      return this.versions(name).find((one) => one.version === version)!;
    });
  }

  /** Of one name, or of all ("") by name; the newest first. */
  versions(name: string): VersionRow[] {
    const of = name === "" ? "" : "WHERE name = ?";
    const values = name === "" ? [] : [name];
    const aliases = this.#sql.all(`SELECT * FROM artifact_aliases ${of} ORDER BY alias`, ...values);
    return this.#sql.all(
      `SELECT * FROM artifact_versions ${of} ORDER BY name, version DESC`,
      ...values,
    ).map((row) => ({
      name: String(row.name),
      version: Number(row.version),
      aliases: aliases.filter((one) => one.name === row.name && one.version === row.version)
        .map(({ alias }) => String(alias)),
      sha256: String(row.sha256),
      runId: String(row.run_id),
      path: String(row.path),
      bytes: Number(row.bytes),
      at: Number(row.at),
    }));
  }
}
