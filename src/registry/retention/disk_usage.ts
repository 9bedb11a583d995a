/** Disk usage of all runs. */
import { BASE_DIRS, type BaseDir, type Layout } from "../../base/layout.ts";
import { eachIn } from "./removal.ts";

export interface FilesUsage {
  /** Bytes of each run's files: its directories and its configs. Without runs that have none. */
  byRun: ReadonlyMap<string, number>;
  /** Bytes below each base directory, of whatever is there. */
  byBase: Readonly<Record<BaseDir, number>>;
}

export interface DiskUsage extends FilesUsage {
  /** Each run's approximate share of the telemetry database. */
  telemetryByRun: ReadonlyMap<string, number>;
}

/** Bytes of a run's files and telemetry. */
export function bytesOfRun(
  usage: Pick<DiskUsage, "byRun" | "telemetryByRun">,
  runId: string,
): number {
  return (usage.byRun.get(runId) ?? 0) + (usage.telemetryByRun.get(runId) ?? 0);
}

/** @param owners by run id; a run that is not there any more is left out */
export function bytesOfOwners(
  usage: Pick<DiskUsage, "byRun" | "telemetryByRun">,
  owners: ReadonlyMap<string, string>,
): Map<string, number> {
  const found = new Map<string, number>();
  for (const [runId, owner] of owners) {
    const bytes = bytesOfRun(usage, runId);
    if (bytes > 0) found.set(owner, (found.get(owner) ?? 0) + bytes);
  }
  return found;
}

/** Reads the sizes of all runs' files once. Links count as links. */
export async function filesUsage(layout: Layout): Promise<FilesUsage> {
  const byRun = new Map<string, number>();
  const byBase = { runs: 0, evals: 0, custom_scripts: 0 };
  const add = (runId: string, bytes: number) => byRun.set(runId, (byRun.get(runId) ?? 0) + bytes);
  for (const base of BASE_DIRS) {
    await eachIn(layout.baseDir(base), (name, bytes) => {
      byBase[base] += bytes;
      add(name, bytes);
    });
  }
  await eachIn(layout.configs, (name, bytes) => {
    const runId = /^(?:config|worker)-([0-9A-Za-z]+)/.exec(name)?.[1];
    if (runId !== undefined) add(runId, bytes);
  });
  return { byRun, byBase };
}
