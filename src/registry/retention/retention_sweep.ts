/** The daemon's own pruning: applies a policy to all ended runs. */
import { messageOf } from "../../base/errors.ts";
import { ENDED_STATES } from "../lifecycle/lifecycle.ts";
import type { Logger } from "../../base/log.ts";
import type { Registry } from "../registry.ts";
import {
  chooseRunsToPrune,
  deletableRuns,
  type PrunableRun,
  type RetentionPolicy,
} from "./retention.ts";
import { bytesOfRun, type DiskUsage } from "./disk_usage.ts";

export interface SweepOptions {
  registry: Pick<Registry, "list">;
  policy: RetentionPolicy;
  /** Called only for a policy with a size: reads the sizes of all files. */
  diskUsage: () => Promise<Pick<DiskUsage, "byRun" | "telemetryByRun">>;
  /**
   * Current size of the telemetry database; called only for a policy that limits it, before each
   * deletion.
   */
  telemetryBytes: () => number;
  /** Removes an ended run: rows, telemetry, files. */
  deleteRun: (runId: string) => Promise<{ freedBytes: number }>;
  log: Logger;
  now?: () => number;
}

/** One pass. Failed deletions are logged and tried again by the next pass. */
export async function sweep(
  options: SweepOptions,
): Promise<{ deleted: string[]; freedBytes: number }> {
  const { registry, policy, log } = options;
  const runs: PrunableRun[] = [];
  const states = policy.maxBytes === undefined ? ENDED_STATES : undefined;
  const usage = policy.maxBytes === undefined ? undefined : await options.diskUsage();
  // A policy that only empties the trash reads no other run.
  const isForAll = Object.keys(policy).some((limit) => limit !== "keepDeletedMs");
  for (const filter of [{ deleted: true }, ...isForAll ? [{ states }] : []]) {
    let token: string | undefined;
    do {
      const page = registry.list(filter, { limit: 500, token });
      for (const { runId, state, createdAt, finishedAt, deletedAt, damaged } of page.runs) {
        const bytes = usage === undefined ? 0 : bytesOfRun(usage, runId);
        runs.push({ runId, state, createdAt, finishedAt, deletedAt, damaged, bytes });
      }
      token = page.nextToken;
    } while (token !== undefined);
  }
  const deleted: string[] = [];
  let freedBytes = 0;
  const remove = async (runId: string, because: string) => {
    try {
      freedBytes += (await options.deleteRun(runId)).freedBytes;
      deleted.push(runId);
      log.info({ run_id: runId, because }, "run deleted by the retention policy");
    } catch (error) {
      log.warn(
        { run_id: runId, error: messageOf(error) },
        "run could not be deleted by the retention policy",
      );
    }
  };
  for (const { run, because } of chooseRunsToPrune(runs, policy, (options.now ?? Date.now)())) {
    await remove(run.runId, because);
  }
  // Measured, not estimated: how much space a deletion frees is known only afterwards.
  for (const { runId } of deletableRuns(runs, policy)) {
    if (options.telemetryBytes() <= (policy.maxTelemetryBytes ?? Infinity)) break;
    if (!deleted.includes(runId)) await remove(runId, "telemetry");
  }
  return { deleted, freedBytes };
}

/**
 * Empties the trash, longest there first, until there is enough space on the disk or nothing is
 * left.
 */
export async function emptyForSpace(
  { registry, deleteRun, hasSpace, log }: Pick<SweepOptions, "deleteRun" | "log"> & {
    registry: Pick<Registry, "list" | "count">;
    hasSpace: () => boolean;
  },
): Promise<void> {
  if (registry.count({ deleted: true }) === 0 || hasSpace()) return;
  const trash: { runId: string; deletedAt: number | null }[] = [];
  let token: string | undefined;
  do {
    const page = registry.list({ deleted: true }, { limit: 500, token });
    trash.push(...page.runs);
    token = page.nextToken;
  } while (token !== undefined);
  for (const { runId } of trash.sort((a, b) => a.deletedAt! - b.deletedAt!)) {
    if (hasSpace()) return;
    try {
      await deleteRun(runId);
      log.info(
        { run_id: runId, because: "disk" },
        "run removed from the trash, because the disk is nearly full",
      );
    } catch (error) {
      log.warn(
        { run_id: runId, error: messageOf(error) },
        "run could not be removed from the trash",
      );
    }
  }
}
