/**
 * Ends worker groups of this state directory that no living attempt owns: those of a run that has ended, was deleted,
 * or is at another attempt by now (a registry restored from a backup, a group that outlived a crash of the whole system).
 *
 * A group is ours beyond doubt only when a process of it carries the run's directory in its environment and the group is
 * the one that the run's own worker file names. Whatever else such a process has started in sessions of its own is left alone.
 */
import type { Layout } from "../../../base/layout.ts";
import type { Logger } from "../../../base/log.ts";
import { groupAlive, signalGroup } from "../../../os/signals.ts";
import { readRecord } from "../../../os/untrusted.ts";
import { askShell } from "../../../os/shell.ts";
import { groupMembers, type ProcessRef } from "../../../os/identity.ts";

/** A process that says of itself which attempt of which run it belongs to. */
export interface Claim {
  pid: number;
  runDir: string;
  attempt: number;
}

/** Processes whose environment names a run below the state directory. */
function claims(layout: Layout): Claim[] {
  const found: Claim[] = [];
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync("/proc")];
  } catch {
    return claimsByShell(layout.trainer);
  }
  for (const { name } of entries) {
    const pid = Number(name);
    if (!Number.isSafeInteger(pid) || pid <= 1) continue;
    let environment: string;
    try {
      environment = Deno.readTextFileSync(`/proc/${pid}/environ`);
    } catch {
      continue;
    }
    const claim = claimIn(environment, layout.trainer);
    if (claim !== undefined) found.push({ pid, ...claim });
  }
  return found;
}

/** The same where the runtime lists no processes: a shell does. */
function claimsByShell(trainer: string): Claim[] {
  const listed = askShell(
    `for f in $(grep -lsF "MOSAIC_RUN_DIR=$0/" /proc/[0-9]*/environ); do
      pid=\${f#/proc/}
      printf '%s\\0' "\${pid%/*}" && grep -azs -e '^MOSAIC_RUN_DIR=' -e '^MOSAIC_ATTEMPT=' "$f"
      printf '\\n'
    done; :`,
    trainer,
  ) ?? "";
  return listed.split("\n").flatMap((line) => {
    const claim = claimIn(line, trainer);
    return claim === undefined ? [] : [{ pid: Number(line.slice(0, line.indexOf("\0"))), ...claim }];
  });
}

/** What an environment (NAME=value, NUL between) says about a run below `trainer`. */
export function claimIn(environment: string, trainer: string): Omit<Claim, "pid"> | undefined {
  let runDir: string | undefined;
  let attempt: number | undefined;
  for (const pair of environment.split("\0")) {
    if (pair.startsWith("MOSAIC_RUN_DIR=")) runDir = pair.slice("MOSAIC_RUN_DIR=".length);
    if (pair.startsWith("MOSAIC_ATTEMPT=")) attempt = Number(pair.slice("MOSAIC_ATTEMPT=".length));
  }
  if (runDir === undefined || !Number.isSafeInteger(attempt)) return undefined;
  const inside = runDir.startsWith(`${trainer}/`) && !runDir.split("/").includes("..");
  return inside ? { runDir, attempt: attempt! } : undefined;
}

function workerOfDirectory(runDir: string, attempt: number): ProcessRef | undefined {
  try {
    const file = JSON.parse(readRecord(`${runDir}/.mosaic/worker-${attempt}.json`) ?? "null");
    return typeof file?.pid === "number" && typeof file.identity === "string" ? file : undefined;
  } catch {
    return undefined;
  }
}

/** @param livingAttempt the attempt of a run that has processes by right; undefined for every other run */
export function reapOrphans(layout: Layout, livingAttempt: (runId: string) => number | undefined, log: Logger): void {
  const seen = new Set<number>();
  for (const { pid, runDir, attempt } of claims(layout)) {
    const runId = runDir.slice(runDir.lastIndexOf("/") + 1);
    if (livingAttempt(runId) === attempt) continue;
    const worker = workerOfDirectory(runDir, attempt);
    if (worker === undefined || seen.has(worker.pid) || !groupAlive(worker)) continue;
    // The group's number may be another's by now: a process that names the run must be a member of it.
    if (!groupMembers(worker.pid).includes(pid)) continue;
    seen.add(worker.pid);
    log.warn({ run_id: runId, attempt, group: worker.pid }, "a worker group of an attempt that is over is killed");
    signalGroup(worker, "SIGKILL");
  }
}
