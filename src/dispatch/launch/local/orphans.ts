/**
 * Ends worker groups of this state directory that no live attempt owns: those of a run that has
 * ended, was deleted, or is at another attempt by now (a registry restored from a backup, a group
 * that survived a crash of the whole system). A group is ours for certain only if one of its
 * processes has the run's directory in its environment and the run's own worker file names the
 * group. Groups that such a process has started in other sessions are not touched.
 */
import type { Layout } from "../../../base/layout.ts";
import type { Logger } from "../../../base/log.ts";
import { groupAlive, signalGroup } from "../../../os/processes/signals.ts";
import { claims } from "../../../os/files/claims.ts";
import { readRecord } from "../../../os/files/untrusted.ts";
import { workerRecordIn } from "../../../journal/worker_record.ts";
import { groupMembers, type ProcessRef } from "../../../os/processes/identity.ts";

function workerOfDirectory(runDir: string, attempt: number): ProcessRef | undefined {
  return workerRecordIn(readRecord(`${runDir}/.mosaic/worker-${attempt}.json`))?.leader;
}

/**
 * @param livingAttempt the attempt of a run that may have processes; undefined for every other run
 */
export function reapOrphans(
  layout: Layout,
  livingAttempt: (runId: string) => number | undefined,
  log: Logger,
): void {
  const seen = new Set<number>();
  for (const { pid, runDir, attempt } of claims(layout.trainer)) {
    const runId = runDir.slice(runDir.lastIndexOf("/") + 1);
    if (livingAttempt(runId) === attempt) continue;
    const worker = workerOfDirectory(runDir, attempt);
    if (worker === undefined || seen.has(worker.pid) || !groupAlive(worker)) continue;
    // The group's number may have been reused: a process that names the run must be a member of it.
    if (!groupMembers(worker.pid).includes(pid)) continue;
    seen.add(worker.pid);
    log.warn(
      { run_id: runId, attempt, group: worker.pid },
      "killed the worker group of an ended attempt",
    );
    signalGroup(worker, "SIGKILL");
  }
}
