/** What all runs take on the disk. */
import { BASE_DIRS, type BaseDir, type Layout } from "../../base/layout.ts";
import { eachIn } from "./removal.ts";

export interface FilesUsage {
  /** Bytes of each run's files: its directories and its configs. Runs without any are left out. */
  byRun: ReadonlyMap<string, number>;
  /** Bytes below each base directory, of whatever is there. */
  byBase: Readonly<Record<BaseDir, number>>;
}

export interface DiskUsage extends FilesUsage {
  /** Each run's share of the telemetry database, about. */
  telemetryByRun: ReadonlyMap<string, number>;
}

/** Bytes of a run's files and telemetry. */
export function bytesOfRun(usage: Pick<DiskUsage, "byRun" | "telemetryByRun">, runId: string): number {
  return (usage.byRun.get(runId) ?? 0) + (usage.telemetryByRun.get(runId) ?? 0);
}

/** One walk through the files of all runs. Links count as links. */
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
