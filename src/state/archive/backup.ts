/**
 * `mosaic backup`: a copy of a live state directory from which a daemon can be started
 * (docs/reference/operations.md, "Backup"). Both databases are copied from snapshots of the same
 * moment. While the snapshots are open, no journal loses bytes that its snapshot lacks (a journal
 * frees only what a checkpoint has moved into the database, and no checkpoint passes a reader). So
 * files of live runs are copied in that time; the others follow.
 */
import { backup as copyDatabase, DatabaseSync } from "node:sqlite";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { BASE_DIRS, Layout, RunFiles } from "../../base/layout.ts";
import type { OnProgress } from "../../base/text/progress_text.ts";
import { VERSION } from "../../base/version.ts";
import { readDatabase } from "../../os/database/read_database.ts";
import { infoIfThere, parentOf, removeIfThere, writeFileAtomic } from "../../os/files/files.ts";
import { type PlaceLock, tryLockPlace } from "../../os/files/place_lock.ts";
import { shellOutput } from "../../os/processes/shell.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { runFrom, SELECT_RUN } from "../../registry/rows.ts";
import { explainSqlite } from "../../registry/sqlite.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { copyIfChanged, isOfThisHost, isSecret, isTooLong, writing } from "./copied_files.ts";
import { entriesOf, infoOf } from "../../os/files/untrusted.ts";

/** Marks a directory as a backup, and describes it. */
const MARK = "backup.json";
const BUSY_TIMEOUT_MS = 5000;
/**
 * The registry is unchanged for the fraction of a millisecond between two beginnings, unless
 * hundreds of runs start.
 */
const SAME_MOMENT_TRIES = 1000;
const MOST_UNNAMED = 100;
/** Above this size SQLite's quick check, which does not compare indexes with tables. */
const FULL_CHECK_BYTES = 1 << 30;
/** Files of a running daemon, or created by it at its start; databases are copied separately. */
const NOT_COPIED =
  /^(backup\.(json|new)|trainer\/(registry\.db(-wal|-shm|-journal|\.new)?|reserve|daemon\.(json|pid|lock|sock)|imports|python-helper)|telemetry\/(reserve|(telemetry|mosaic)\.sqlite(-wal|-shm|-journal|\.new)?)|.*\.tmp)$/;

export interface BackupOutcome {
  directory: string;
  state_dir: string;
  mosaic: string;
  began_at: string;
  /** Null while a backup is being made, or if one was interrupted. */
  finished_at: string | null;
  runs: number;
  live_runs: number;
  files: number;
  /** New or changed since the last backup into the directory. */
  copied_files: number;
  copied_bytes: number;
  database_bytes: number;
  /** Tokens and keys are in it. */
  secrets: boolean;
  /** What could not be copied, and why. */
  left_out: string[];
}

/**
 * @param options.onProgress is told how much of each database is copied, and of how many runs the
 * files
 * @param options.secrets also tokens and keys; a sandboxed worker can read a backup outside of the
 * state directory
 * @param to created if it does not exist; otherwise empty or an earlier backup, of which only
 * changed files are copied again
 * @throws MosaicError `not_found` (no state directory), `invalid_argument` (one within the other),
 * `failed_precondition`
 *   (something else is in `to`, or it is in use), `unavailable` (a disk, also if a copy reads differently)
 */
export async function backUp(
  stateDir: string,
  to: string,
  { secrets = false, onProgress = () => {} }: { secrets?: boolean; onProgress?: OnProgress } = {},
): Promise<BackupOutcome> {
  const from = new Layout(stateDir);
  if (infoIfThere(from.registryDb) === undefined) {
    throw new MosaicError(
      "not_found",
      `no state directory ${stateDir}: it has no ${from.registryDb}`,
      {
        hint: "Give --state-dir DIR.",
      },
    );
  }
  if (`${to}/`.startsWith(`${stateDir}/`) || `${stateDir}/`.startsWith(`${to}/`)) {
    throw new MosaicError(
      "invalid_argument",
      `${to} and the state directory ${stateDir} are within each other`,
    );
  }
  const lock = prepared(to);
  try {
    return await new Backup(from, new Layout(to), secrets, onProgress).make();
  } finally {
    lock.close();
  }
}

/** @returns the lock that a daemon on the copy would need */
function prepared(to: string): PlaceLock {
  const info = infoIfThere(to);
  if (info !== undefined && !info.isDirectory) {
    throw new MosaicError("invalid_argument", `${to} is no directory`);
  }
  if (
    info !== undefined && infoIfThere(`${to}/${MARK}`) === undefined &&
    [...Deno.readDirSync(to)].length > 0
  ) {
    throw new MosaicError(
      "failed_precondition",
      `${to} is not empty, and no backup: it has no ${MARK}`,
      {
        hint: "Name a new directory, or one that mosaic backup has made.",
      },
    );
  }
  const { lockFile, trainer } = new Layout(to);
  writing(to, () => {
    Deno.mkdirSync(trainer, { recursive: true, mode: 0o700 });
    // It may have been there before.
    Deno.chmodSync(to, 0o700);
  });
  const lock = tryLockPlace(lockFile);
  if (lock !== undefined) return lock;
  throw new MosaicError(
    "failed_precondition",
    `${to} is in use: by a daemon, or by another backup`,
    {
      hint: "Copy a backup before you start a daemon on it.",
    },
  );
}

class Backup {
  readonly #from: Layout;
  readonly #to: Layout;
  readonly #done: BackupOutcome;
  readonly #onProgress: OnProgress;
  #runsDone = 0;

  constructor(from: Layout, to: Layout, secrets: boolean, onProgress: OnProgress) {
    this.#onProgress = onProgress;
    this.#from = from;
    this.#to = to;
    this.#done = {
      ...{ directory: to.stateDir, state_dir: from.stateDir, mosaic: VERSION },
      ...{ began_at: new Date().toISOString(), finished_at: null },
      ...{
        runs: 0,
        live_runs: 0,
        files: 0,
        copied_files: 0,
        copied_bytes: 0,
        database_bytes: 0,
        secrets,
        left_out: [],
      },
    };
  }

  async make(): Promise<BackupOutcome> {
    this.#mark();
    writing(this.#unfinished, () => removeIfThere(this.#unfinished));
    const telemetryDb = this.#from.telemetryDb;
    using snapshots = snapshotsOf(this.#from.registryDb, telemetryDb);
    const { registry, telemetry } = snapshots;
    const runs = registry.prepare(SELECT_RUN).all().map(runFrom);
    this.#done.runs = runs.length;
    const live = runs.filter(({ state }) => !isEnded(state));
    this.#done.live_runs = live.length;
    const directoryOf = (run: RunRow) => `trainer/${run.baseDir}/${run.runId}`;
    for (const run of live) this.#mirror(directoryOf(run), notBegun(run));
    const name = telemetryDb.slice(this.#from.stateDir.length + 1);
    if (telemetry !== undefined) await this.#database(telemetry, telemetryDb, name);
    await this.#database(registry, this.#from.registryDb, "trainer/registry.db", (copy) => {
      // A daemon on the copy must not take processes of this host for its own.
      copy.exec("UPDATE runs SET proxy = NULL, worker = NULL WHERE outcome IS NULL");
      // Valid at the original's daemon as long as the run lives; a daemon on the copy gives its
      // proxies this one.
      if (!this.#done.secrets) {
        copy.exec(
          "UPDATE runs SET session_token = lower(hex(randomblob(16))) WHERE session_token IS NOT NULL",
        );
      }
    });
    snapshots[Symbol.dispose]();
    // Another attempt of an ended run may begin meanwhile.
    const known = new Map(runs.map((run) => [directoryOf(run), notBegun(run)]));
    const ofLive = new Set(live.map(directoryOf));
    const ids = new Set(runs.map(({ runId }) => runId));
    this.#mirror("", (path) => {
      const config = /^trainer\/configs\/(?:config|worker)-([0-9A-Za-z]+)[.-]/.exec(path);
      if (config !== null && !ids.has(config[1]!)) return "gone";
      if (ofLive.has(path)) return "keep";
      const [trainer, base, ...below] = path.split("/");
      if (trainer !== "trainer" || below.length === 0 || !BASE_DIRS.some((dir) => dir === base)) {
        return "copy";
      }
      return known.get(`${trainer}/${base}/${below[0]}`)?.(path) ?? "gone";
    });
    this.#done.left_out.push(...unnamed(this.#from.stateDir));
    this.#done.finished_at = new Date().toISOString();
    this.#mark();
    return this.#done;
  }

  /** Of a file; in a run's directory a worker could have taken the name. */
  get #unfinished(): string {
    return `${this.#to.stateDir}/backup.new`;
  }

  #mark(): void {
    const path = `${this.#to.stateDir}/${MARK}`;
    writing(
      path,
      () => writeFileAtomic(path, `${JSON.stringify(this.#done, null, 2)}\n`, { mode: 0o600 }),
    );
  }

  async #database(
    snapshot: DatabaseSync,
    from: string,
    name: string,
    change: (copy: DatabaseSync) => void = () => {},
  ): Promise<void> {
    const path = `${this.#to.stateDir}/${name}`;
    const unfinished = `${path}.new`;
    for (const suffix of ["", "-wal", "-shm", "-journal"]) removeIfThere(unfinished + suffix);
    try {
      writing(path, () => {
        Deno.mkdirSync(parentOf(path), { recursive: true, mode: 0o700 });
        Deno.openSync(unfinished, { write: true, createNew: true, mode: 0o600 }).close();
      });
      const pageBytes = Number(snapshot.prepare("PRAGMA page_size").get()!["page_size"]);
      const progress = (
        { totalPages, remainingPages }: { totalPages: number; remainingPages: number },
      ) =>
        this.#onProgress({
          ...{ name, unit: "bytes" },
          ...{ done: (totalPages - remainingPages) * pageBytes, total: totalPages * pageBytes },
        });
      await copyDatabase(snapshot, unfinished, { rate: 4096, progress });
    } catch (error) {
      if (error instanceof MosaicError) throw error;
      const full = /is full|No space/i.test(messageOf(error));
      throw new MosaicError("unavailable", `cannot copy ${from} to ${path}: ${messageOf(error)}`, {
        hint: full
          ? "Free space on the backup's disk."
          : "mosaic doctor says whether the database is damaged.",
        cause: error,
      });
    }
    const problem = inspect(unfinished, snapshot, change);
    if (problem !== undefined) {
      removeIfThere(unfinished);
      throw new MosaicError("unavailable", `the copy of ${from} is damaged: ${problem}`, {
        hint: "Run mosaic doctor: if the database itself is sound, check the disk of the backup.",
      });
    }
    writing(path, () => {
      using file = Deno.openSync(unfinished, { read: true, write: true });
      file.syncSync();
      for (const suffix of ["-wal", "-shm"]) removeIfThere(path + suffix);
      Deno.renameSync(unfinished, path);
    });
    this.#done.database_bytes += Deno.lstatSync(path).size;
  }

  /**
   * Makes a directory of the copy equal to the original's.
   * @param path below the state directory, "" for itself
   * @param what to do with a path: copy it, leave the copy unchanged, or treat it as missing
   */
  #mirror(path: string, what: (path: string) => "copy" | "keep" | "gone"): void {
    const [source, target] = [this.#from, this.#to].map(({ stateDir }) =>
      path === "" ? stateDir : `${stateDir}/${path}`
    );
    let entries: Deno.DirEntry[];
    try {
      const from = this.#from.stateDir;
      if (infoOf(source!, from)?.isDirectory !== true) return;
      // A log before its packed part: bytes that become a hole meanwhile are then in the later
      // copy.
      entries = entriesOf(source!, from).sort((a, b) => a.name < b.name ? -1 : 1);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      return void this.#done.left_out.push(`${source}: ${messageOf(error)}`);
    }
    writing(target!, () => {
      const existing = infoIfThere(target!);
      if (existing !== undefined && !existing.isDirectory) Deno.removeSync(target!);
      Deno.mkdirSync(target!, { recursive: true, mode: 0o700 });
    });
    const kept = new Set<string>();
    for (const { name, isDirectory, isFile, isSymlink } of entries) {
      const below = path === "" ? name : `${path}/${name}`;
      if (
        NOT_COPIED.test(below) || isOfThisHost(below) || (!this.#done.secrets && isSecret(below))
      ) continue;
      const todo = what(below);
      if (todo === "gone") continue;
      if (isTooLong(`${source}/${name}`) || isTooLong(`${target}/${name}`)) {
        this.#done.left_out.push(`${source!.slice(0, 300)}…: its path is too long`);
        continue;
      }
      kept.add(name);
      if (todo === "keep") continue;
      if (isDirectory) this.#mirror(below, what);
      else if (isSymlink) this.#link(`${source}/${name}`, `${target}/${name}`);
      else if (!isFile || !this.#file(`${source}/${name}`, `${target}/${name}`)) kept.delete(name);
    }
    for (const { name } of Deno.readDirSync(target!)) {
      const below = path === "" ? name : `${path}/${name}`;
      if (kept.has(name) || (NOT_COPIED.test(below) && !/(^|\/)imports$|\.tmp$/.test(below))) {
        continue;
      }
      writing(below, () => Deno.removeSync(`${target}/${name}`, { recursive: true }));
    }
    if (/^trainer\/[^/]+\/[^/]+$/.test(path)) this.#runsDone++;
  }

  #file(from: string, to: string): boolean {
    try {
      const bytes = copyIfChanged(from, to, this.#from.stateDir, this.#unfinished);
      if (bytes === undefined) return false;
      this.#done.files++;
      this.#onProgress({
        name: "files",
        unit: "runs",
        done: this.#runsDone,
        total: this.#done.runs,
      });
      if (bytes > 0) {
        this.#done.copied_files++;
        this.#done.copied_bytes += bytes;
      }
      return true;
    } catch (error) {
      // An error of the backup's disk ends it; an unreadable file is only left out.
      if (error instanceof MosaicError && error.code !== "permission_denied") throw error;
      this.#done.left_out.push(`${from}: ${messageOf(error)}`);
      return infoIfThere(to) !== undefined;
    }
  }

  #link(from: string, to: string): void {
    const goal = readLink(from);
    if (goal === undefined || (infoIfThere(to)?.isSymlink === true && readLink(to) === goal)) {
      return;
    }
    writing(to, () => {
      if (infoIfThere(to) !== undefined) Deno.removeSync(to, { recursive: true });
      Deno.symlinkSync(goal, to);
    });
  }
}

function readLink(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined;
  }
}

/** The runtime passes over names that are not UTF-8. */
function unnamed(stateDir: string): string[] {
  const found =
    shellOutput(`LC_ALL=C find "$0" -name '*[! -~]*' 2>/dev/null | head -c 1000000`, stateDir) ??
      "";
  const paths = found.split("\n").filter((path) =>
    path.includes("\ufffd") && infoIfThere(path) === undefined
  );
  const said = paths.slice(0, MOST_UNNAMED).map((path) => `${path}: its name is not UTF-8`);
  return paths.length > said.length
    ? [...said, `${paths.length - said.length} more with names that are not UTF-8`]
    : said;
}

/**
 * Leaves out files of attempts that had not begun in the registry's snapshot, because a start of
 * the copy would find them.
 */
function notBegun({ state, attempt, workerId }: RunRow): (path: string) => "copy" | "gone" {
  const begun = state === "INIT" || state === "HANDSHAKE" ? attempt - 1 : attempt;
  const log = new RunFiles("", workerId).logOf(1).slice("/logs/".length);
  return (path) => {
    const [, , , ...below] = path.split("/");
    return (attemptOf(below, log) ?? 0) > begun ? "gone" : "copy";
  };
}

/** Of a file of mosaic's own (base/layout.ts). @param log name of the first attempt's logs */
function attemptOf([directory, name, ...deeper]: string[], log: string): number | undefined {
  const number = (text: string, pattern: RegExp) => {
    const found = pattern.exec(text);
    return found === null ? undefined : Number(found[1] ?? 1);
  };
  if (deeper.length > 0 || directory === undefined) return undefined;
  if (name === undefined) return number(directory, /^exit(?:\.(\d+))?\.json$/);
  if (directory === ".mosaic") return number(name, /^[a-z]+-(\d+)(?=[.-]|$)/);
  if (directory !== "logs" || !name.startsWith(`${log}.`)) return undefined;
  return number(name.slice(log.length), /^(?:\.(\d+))?(?:\.rank-\d+)?\.std(?:out|err)\.log/);
}

interface Snapshots extends Disposable {
  registry: DatabaseSync;
  /** undefined: there is no such database yet. */
  telemetry: DatabaseSync | undefined;
}

/**
 * Both databases in read transactions that have begun at one moment: otherwise the telemetry could
 * have an attempt that the registry does not know. If the registry was written between the two
 * beginnings, both begin again.
 * @throws MosaicError `unavailable` if the registry is written too often
 */
function snapshotsOf(registryDb: string, telemetryDb: string): Snapshots {
  using watcher = connected(registryDb);
  const registry = connected(registryDb);
  const telemetry = infoIfThere(telemetryDb) === undefined ? undefined : connected(telemetryDb);
  const snapshots = {
    registry,
    telemetry,
    [Symbol.dispose]: () => [registry, telemetry].forEach((db) => db?.[Symbol.dispose]()),
  };
  try {
    for (let tries = 0; tries < SAME_MOMENT_TRIES; tries++) {
      const before = versionOf(watcher, registryDb);
      begin(registry, registryDb);
      if (telemetry === undefined) return snapshots;
      begin(telemetry, telemetryDb);
      if (versionOf(watcher, registryDb) === before) return snapshots;
      for (const db of [registry, telemetry]) db.exec("ROLLBACK");
    }
    throw new MosaicError(
      "unavailable",
      `${registryDb} is written too often for a snapshot of both databases`,
      {
        hint: "Try again.",
      },
    );
  } catch (error) {
    snapshots[Symbol.dispose]();
    throw error;
  }
}

/** Changes with each commit of another connection. */
function versionOf(db: DatabaseSync, path: string): unknown {
  try {
    return db.prepare("PRAGMA data_version").get()!.data_version;
  } catch (error) {
    throw explainSqlite(error, path);
  }
}

function connected(path: string): DatabaseSync & Disposable {
  try {
    const db = readDatabase(path, BUSY_TIMEOUT_MS);
    const { close } = db;
    return Object.assign(db, { [Symbol.dispose]: () => void (db.isOpen && close.call(db)) });
  } catch (error) {
    throw explainSqlite(error, path);
  }
}

/** The snapshot is taken by the first read. */
function begin(db: DatabaseSync, path: string): void {
  try {
    db.exec("BEGIN");
    db.prepare("SELECT count(*) FROM sqlite_master").get();
  } catch (error) {
    throw explainSqlite(error, path);
  }
}

/** What is wrong with a copy that was just written; undefined: nothing. */
function inspect(
  path: string,
  original: DatabaseSync,
  change: (copy: DatabaseSync) => void,
): string | undefined {
  const value = (db: DatabaseSync, pragma: string) =>
    Object.values(db.prepare(`PRAGMA ${pragma}`).get()!)[0];
  try {
    using copy = new DatabaseSync(path);
    for (const pragma of ["page_count", "user_version", "page_size"]) {
      const [is, was] = [value(copy, pragma), value(original, pragma)];
      if (is !== was) return `${pragma} is ${is}, not ${was}`;
    }
    const check = Deno.lstatSync(path).size > FULL_CHECK_BYTES ? "quick_check" : "integrity_check";
    const found = value(copy, `${check}(1)`);
    if (found !== "ok") return String(found);
    change(copy);
    copy.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
