/** Imports runs of another host, which a client has unpacked below `trainer/imports`. */
import type { DatabaseSync } from "node:sqlite";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere } from "../../os/files/files.ts";
import { BASE_DIRS, type Layout } from "../../base/layout.ts";
import { FILE_NAME_PART } from "../../config/schema.ts";
import type { Logger } from "../../base/log.ts";
import { type ForeignRows, openForeignRows } from "../../registry/foreign_rows.ts";
import { isEnded, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import { migrate as migrateRegistry } from "../../registry/migrations.ts";
import { childIdsOf } from "../../registry/moved_run.ts";
import type { Registry } from "../../registry/registry.ts";
import { isConfigOf, removeRunFiles } from "../../registry/retention/removal.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { migrate as migrateTelemetry } from "../../telemetry/tables/tables.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";

export interface ImportOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
}

/** No client takes this long between unpacking a run and importing it. */
const LEFT_MS = 24 * 3600_000;
/**
 * A larger database was compared by the client that unpacked it: it would keep the daemon from
 * everything else for too long.
 */
const CHECKED_BYTES = 64 << 20;
/** Runs that are being imported. */
const underWay = new Set<string>();

/**
 * Writes the rows of the telemetry first, then the files, the registry's rows last: an interrupted
 * import leaves no run, and the next import begins again.
 * @param name of a directory below `trainer/imports`; it is deleted afterwards
 * @throws MosaicError `invalid_argument` (no such directory, or no run in it), `already_exists`,
 * `unavailable`
 */
export async function importRun(
  { registry, telemetry, log, layout }: ImportOptions,
  name: string,
): Promise<RunRow> {
  const spool = `${layout.imports}/${name}`;
  if (!/^[0-9A-Za-z-]{1,80}$/.test(name)) {
    throw new MosaicError(
      "invalid_argument",
      `${JSON.stringify(name)} is no directory of ${layout.imports}`,
    );
  }
  let runId: string | undefined;
  try {
    removeLeft(layout);
    using rows = opened(`${spool}/registry.db`, "registry.db", migrateRegistry);
    const run = rows?.prepare(
      "SELECT run_id, state, base_dir, worker_id FROM runs WHERE parent IS NULL",
    ).get();
    const baseDir = BASE_DIRS.find((base) => base === run?.["base_dir"]);
    const id = String(run?.["run_id"]);
    const all = rows === undefined ? [] : [id, ...childIdsOf(rows, id)];
    // Its children's logs and files are below the same directories.
    const children = rows?.prepare(
      "SELECT base_dir, worker_id FROM runs WHERE parent IS NOT NULL",
    ).all() ?? [];
    const isOne = all.every((one) => /^[0-9A-Z]{26}$/.test(one)) &&
      FILE_NAME_PART.test(String(run?.["worker_id"])) &&
      children.every(({ base_dir, worker_id }) =>
        base_dir === baseDir && (worker_id === "" || FILE_NAME_PART.test(String(worker_id)))
      );
    if (rows === undefined || baseDir === undefined || !isOne) {
      throw new MosaicError(
        "invalid_argument",
        `${spool} has no run: mosaic import makes such directories`,
      );
    }
    for (const { run_id, state } of rows.prepare("SELECT run_id, state FROM runs").all()) {
      if (isEnded(state as RunState)) continue;
      throw new MosaicError(
        "invalid_argument",
        `run ${run_id} of ${spool} is ${state}, and has not ended`,
      );
    }
    const known = all.find((one) => registry.known(one) !== undefined || underWay.has(one));
    if (known !== undefined) {
      throw new MosaicError("already_exists", `run ${known} already exists`);
    }
    underWay.add(runId = id);
    // Rows of an interrupted import.
    for (const one of all) telemetry.discard(one);
    await removeRunFiles(layout, id);
    using records = opened(`${spool}/telemetry.sqlite`, "telemetry.sqlite", migrateTelemetry);
    if (records !== undefined) { for (const one of all) await telemetry.adopt(records, one); }
    for (const { name } of entriesOf(`${spool}/configs`)) {
      if (isConfigOf(id, name)) {
        Deno.renameSync(`${spool}/configs/${name}`, `${layout.configs}/${name}`);
      }
    }
    if (entriesOf(spool).some(({ name, isDirectory }) => name === "directory" && isDirectory)) {
      Deno.renameSync(`${spool}/directory`, layout.runDir(baseDir, id));
    }
    registry.adopt(rows, id);
    log.info({ run_id: id }, "run imported");
    return registry.require(id);
  } finally {
    if (runId !== undefined) underWay.delete(runId);
    try {
      Deno.removeSync(spool, { recursive: true });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) {
        log.warn(
          { path: spool, error: messageOf(error) },
          "the unpacked files of an import could not be removed",
        );
      }
    }
  }
}

/** @throws MosaicError `invalid_argument` for a database that mosaic has not made */
function opened(
  path: string,
  kind: ForeignRows,
  migrate: (db: DatabaseSync, path: string) => void,
): DatabaseSync | undefined {
  const info = infoIfThere(path);
  if (!info?.isFile) return undefined;
  const db = openForeignRows(path, kind, { whole: info.size <= CHECKED_BYTES, writable: true });
  try {
    migrate(db, path);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Removes the directories of killed clients. */
function removeLeft({ imports }: Layout): void {
  for (const { name } of entriesOf(imports)) {
    const { mtime } = Deno.lstatSync(`${imports}/${name}`);
    if (Date.now() - (mtime?.getTime() ?? 0) > LEFT_MS) {
      Deno.removeSync(`${imports}/${name}`, { recursive: true });
    }
  }
}

function entriesOf(path: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(path)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
