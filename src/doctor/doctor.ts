/**
 * Examines a state directory and mends what can be mended without deciding for a person: nothing of a run is deleted.
 * An examination only reads and may be made while a daemon runs; a repair holds the daemon's lock.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { readTextIfThere, removeIfThere, tryLock } from "../os/files.ts";
import { MIGRATIONS } from "../registry/migrations.ts";
import { SCHEMA_VERSION as TELEMETRY_VERSION } from "../telemetry/store/tables.ts";
import { examineDatabase } from "./databases.ts";
import { type Finding, plain, type Repairable } from "./finding.ts";
import { isLocked } from "./lock.ts";
import { examineRegistryState, type KnownRun, knownRuns } from "./registry_state.ts";
import { examineLeftovers, examineModes, examineRunFiles } from "./state_files.ts";

export interface Repaired {
  finding: Finding;
  done: boolean;
  /** What was done, or why it could not be. */
  outcome: string;
}

/** Everything that is not as it should be. @throws MosaicError `not_found` when there is no such directory. */
export function examine(stateDir: string): Finding[] {
  const layout = layoutOf(stateDir);
  // The lock tells whether a daemon runs, not the pid file: a pid may be anybody's by now.
  return inspect(layout, isLocked(layout.lockFile)).map(plain);
}

/**
 * Mends what it can, and examines again.
 *
 * @throws MosaicError `not_found`; `failed_precondition` while a daemon runs on the directory.
 */
export function repair(stateDir: string): { repaired: Repaired[]; remaining: Finding[] } {
  const layout = layoutOf(stateDir);
  const had = readTextIfThere(layout.lockFile) !== undefined;
  const lock = tryLock(layout.lockFile);
  if (lock === undefined) {
    const pid = readTextIfThere(layout.pidFile)?.trim();
    throw new MosaicError("failed_precondition", `a daemon${pid ? ` (pid ${pid})` : ""} is using ${stateDir}`, {
      hint: "Stop the daemon first (its runs go on), repair, and start it again.",
    });
  }
  try {
    const repaired: Repaired[] = [];
    // A database comes before what it says: with a rescued registry, other things are orphans. Modes are set where the
    // files lie, before these are moved.
    const turns = ["database", "modes", "others"] as const;
    const turnOf = ({ check }: Repairable) => check === "database" || check === "modes" ? check : "others";
    for (const turn of turns) {
      for (const finding of inspect(layout, false)) {
        if (finding.repair === undefined || turnOf(finding) !== turn) continue;
        try {
          repaired.push({ finding: plain(finding), done: true, outcome: finding.repair() });
        } catch (error) {
          repaired.push({ finding: plain(finding), done: false, outcome: messageOf(error) });
        }
      }
    }
    return { repaired, remaining: inspect(layout, false).map(plain) };
  } finally {
    lock.close();
    if (!had) removeIfThere(layout.lockFile);
  }
}

function layoutOf(stateDir: string): Layout {
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(stateDir);
  } catch (error) {
    throw new MosaicError("not_found", `there is no state directory ${stateDir}: ${messageOf(error)}`, {
      hint: "Give --state-dir DIR; a daemon makes it at its first start.",
    });
  }
  if (!info.isDirectory) throw new MosaicError("invalid_argument", `${stateDir} is no directory`);
  return new Layout(stateDir);
}

function inspect(layout: Layout, daemonIsRunning: boolean): Repairable[] {
  const now = Date.now();
  const findings = [
    ...examineDatabase(layout.registryDb, MIGRATIONS.at(-1)!.version),
    ...examineDatabase(layout.telemetryDb, TELEMETRY_VERSION),
  ];
  const registryIsSound = !findings.some((finding) => finding.path === layout.registryDb);
  if (registryIsSound) {
    let runs: KnownRun[] | undefined;
    try {
      runs = knownRuns(layout.registryDb);
    } catch {
      // There is none yet. Without one, nothing can be called an orphan.
    }
    if (runs !== undefined) {
      findings.push(...examineRegistryState(layout.registryDb, runs));
      findings.push(...examineRunFiles(layout, runs, daemonIsRunning, now));
    }
  }
  findings.push(...examineDaemonFiles(layout, daemonIsRunning));
  findings.push(...examineModes(layout));
  findings.push(...examineLeftovers(layout, daemonIsRunning, now));
  return findings;
}

function examineDaemonFiles(layout: Layout, daemonIsRunning: boolean): Repairable[] {
  if (daemonIsRunning) return [];
  return [layout.daemonJson, layout.pidFile].filter((path) => readTextIfThere(path) !== undefined).map((path) => ({
    check: "daemon_files" as const,
    severity: "warning" as const,
    path,
    message: "is left of a daemon that runs no more",
    remedy: "remove it",
    repair: () => {
      removeIfThere(path);
      return "removed";
    },
  }));
}
