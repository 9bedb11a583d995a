/**
 * Checks a state directory and repairs what needs no human decision; never deletes files of runs.
 * Checking is read-only and works while a daemon runs; repairing holds the daemon's lock.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { explainPath } from "../../permissions/missing.ts";
import { type FileSystem, fileSystemOf, remoteText } from "../../os/host/file_system.ts";
import { isPlaceLocked, readTextIfThere, removeIfThere } from "../../os/files/files.ts";
import { tryLockPlace } from "../../os/files/place_lock.ts";
import { migrate as migrateRegistry, MIGRATIONS } from "../../registry/migrations.ts";
import {
  migrate as migrateTelemetry,
  SCHEMA_VERSION as TELEMETRY_VERSION,
} from "../../telemetry/tables/tables.ts";
import { examineDatabase } from "./databases.ts";
import { type Finding, plain, type Repairable } from "./finding.ts";
import { examineRegistryState, type KnownRun, knownRuns } from "./registry_state.ts";
import { examineTelemetry, reindex as reindexRun } from "./telemetry_rows.ts";
import { examineLeftovers, examineModes, examineRunFiles } from "./state_files.ts";

export interface Repaired {
  finding: Finding;
  done: boolean;
  /** What was done, or why it failed. */
  outcome: string;
}

/** All findings. @throws MosaicError `not_found` when there is no such directory */
export function examine(stateDir: string): Finding[] {
  const layout = layoutOf(stateDir);
  // Use the lock, not the pid file: the pid may have been reused.
  return inspect(layout, isPlaceLocked(layout.lockFile)).map(plain);
}

/**
 * Repairs what it can, then checks again.
 *
 * @throws MosaicError `not_found`; `failed_precondition` while a daemon runs on the directory.
 */
export function repair(stateDir: string): { repaired: Repaired[]; remaining: Finding[] } {
  const layout = layoutOf(stateDir);
  return withoutDaemon(layout, () => {
    const repaired: Repaired[] = [];
    // Repair databases first: a recovered registry changes which files are orphans, and recovered
    // telemetry is refilled. Set modes before files are moved.
    const turns = ["database", "modes", "others"] as const;
    const turnOf = ({ check }: Repairable) =>
      check === "database" || check === "modes" ? check : "others";
    let findings = inspect(layout, false);
    for (const turn of turns) {
      const before = repaired.length;
      for (const finding of findings) {
        if (finding.repair === undefined || turnOf(finding) !== turn) continue;
        try {
          repaired.push({ finding: plain(finding), done: true, outcome: finding.repair() });
        } catch (error) {
          repaired.push({ finding: plain(finding), done: false, outcome: messageOf(error) });
        }
      }
      // A check reads whole databases: again only after something may have changed.
      if (repaired.length > before) findings = inspect(layout, false);
    }
    return { repaired, remaining: findings.map(plain) };
  });
}

/**
 * Stores records of one run's logs that telemetry lacks.
 * @param name its id, a unique prefix of it, or its name
 * @throws MosaicError `not_found`, `invalid_argument` (several runs); `failed_precondition` while a
 * daemon runs on the
 *   directory, or if the logs do not contain what is missing
 */
export function reindex(stateDir: string, name: string): { runId: string; outcome: string } {
  const layout = layoutOf(stateDir);
  return withoutDaemon(layout, () => {
    const runs = knownRuns(layout.registryDb);
    const exact = runs.filter((run) => run.runId === name || run.name === name);
    const found = exact.length > 0
      ? exact
      : runs.filter((run) => run.runId.startsWith(name.toUpperCase()));
    const [run] = found;
    if (run === undefined) {
      throw new MosaicError("not_found", `no run ${JSON.stringify(name)} in ${stateDir}`);
    }
    if (found.length > 1) {
      throw new MosaicError(
        "invalid_argument",
        `${found.length} runs are called ${JSON.stringify(name)}`,
        {
          hint: `Give an id: ${found.slice(0, 3).map(({ runId }) => runId).join(", ")}`,
        },
      );
    }
    return { runId: run.runId, outcome: reindexRun(layout, run, runs) };
  });
}

/** Holds the daemon's lock during the work. @throws MosaicError `failed_precondition` */
function withoutDaemon<T>(layout: Layout, work: () => T): T {
  const had = readTextIfThere(layout.lockFile) !== undefined;
  const lock = tryLockPlace(layout.lockFile);
  if (lock === undefined) {
    const pid = pidIn(readTextIfThere(layout.pidFile));
    throw new MosaicError("failed_precondition", `a daemon${pid} is using ${layout.stateDir}`, {
      hint: "Stop the daemon first (its runs continue), repair, and start it again.",
    });
  }
  try {
    return work();
  } finally {
    lock.close();
    if (!had) removeIfThere(layout.lockFile);
  }
}

function pidIn(text: string | undefined): string {
  return text === undefined || text.trim() === "" ? "" : ` (pid ${text.trim()})`;
}

function layoutOf(stateDir: string): Layout {
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(stateDir);
  } catch (error) {
    const known = explainPath(error, stateDir);
    if (known instanceof MosaicError && known.code !== "not_found") throw known;
    throw new MosaicError("not_found", `no state directory ${stateDir}: ${messageOf(error)}`, {
      hint: "Give --state-dir DIR; the daemon creates it at its first start.",
    });
  }
  if (!info.isDirectory) {
    throw new MosaicError("invalid_argument", `${stateDir} is not a directory`);
  }
  return new Layout(stateDir);
}

export function examineFileSystem(path: string, { kind, name }: FileSystem): Repairable[] {
  if (kind !== "remote") return [];
  return [{
    check: "file_system",
    severity: "warning",
    path,
    message: remoteText(name),
    remedy: "",
  }];
}

function inspect(layout: Layout, daemonIsRunning: boolean): Repairable[] {
  const now = Date.now();
  const findings = [
    ...examineFileSystem(layout.stateDir, fileSystemOf(layout.stateDir)),
    ...examineDatabase(
      layout.registryDb,
      MIGRATIONS.at(-1)!.version,
      (db) => migrateRegistry(db, layout.registryDb),
    ),
    ...examineDatabase(
      layout.telemetryDb,
      TELEMETRY_VERSION,
      (db) => migrateTelemetry(db, layout.telemetryDb),
    ),
  ];
  const registryIsSound = !findings.some((finding) => finding.path === layout.registryDb);
  const telemetryIsSound = !findings.some((finding) => finding.path === layout.telemetryDb);
  if (registryIsSound) {
    let runs: KnownRun[] | undefined;
    try {
      runs = knownRuns(layout.registryDb);
    } catch {
      // No registry yet. Without one, orphans cannot be recognized.
    }
    if (runs !== undefined) {
      findings.push(...examineRegistryState(layout, runs));
      findings.push(...examineRunFiles(layout, runs, daemonIsRunning, now));
      if (telemetryIsSound) findings.push(...examineTelemetry(layout, runs));
    }
  }
  findings.push(...examineDaemonFiles(layout, daemonIsRunning));
  findings.push(...examineModes(layout));
  findings.push(...examineLeftovers(layout, daemonIsRunning, now));
  return findings;
}

function examineDaemonFiles(layout: Layout, daemonIsRunning: boolean): Repairable[] {
  if (daemonIsRunning) return examineWorkerUser(layout);
  return [layout.daemonJson, layout.pidFile].filter((path) => readTextIfThere(path) !== undefined)
    .map((path) => ({
      check: "daemon_files" as const,
      severity: "warning" as const,
      path,
      message: "was left by a daemon that no longer runs",
      remedy: "remove it",
      repair: () => {
        removeIfThere(path);
        return "removed";
      },
    }));
}

/** A daemon of root records in daemon.json whether its workers have another user. */
function examineWorkerUser({ daemonJson }: Layout): Repairable[] {
  const text = readTextIfThere(daemonJson);
  if (text === undefined || Deno.statSync(daemonJson).uid !== 0 || text.includes('"worker_user"')) {
    return [];
  }
  return [{
    check: "worker_user",
    severity: "note",
    path: daemonJson,
    message: "the daemon runs as root, and so do workers whose config names no worker.user",
    remedy: "",
  }];
}
