/** The daemon's own pruning: applies a policy to everything that has ended. */
import { messageOf } from "../errors.ts";
import type { Layout } from "../layout.ts";
import { ENDED_STATES } from "../lifecycle/lifecycle.ts";
import type { Logger } from "../log.ts";
import type { Registry } from "../registry/registry.ts";
import { diskUsage } from "./usage.ts";
import { chooseRunsToPrune, type PrunableRun, type RetentionPolicy } from "./retention.ts";

export interface SweepOptions {
  registry: Pick<Registry, "list">;
  layout: Layout;
  policy: RetentionPolicy;
  /** Removes an ended run: rows, telemetry, files. */
  deleteRun: (runId: string) => Promise<{ freedBytes: number }>;
  log: Logger;
  now?: () => number;
}

/** One pass. What could not be deleted is logged and tried again by the next pass. */
export async function sweep(options: SweepOptions): Promise<{ deleted: string[]; freedBytes: number }> {
  const { registry, layout, policy, log } = options;
  const runs: PrunableRun[] = [];
  const states = policy.maxBytes === undefined ? ENDED_STATES : undefined;
  // Sizes cost a walk through all directories: only where they matter.
  const usage = policy.maxBytes === undefined ? undefined : await diskUsage(layout);
  let token: string | undefined;
  do {
    const page = registry.list({ states }, { limit: 500, token });
    for (const { runId, state, createdAt, finishedAt } of page.runs) {
      const bytes = usage?.byRun.get(runId) ?? 0;
      runs.push({ runId, state, createdAt, finishedAt, bytes });
    }
    token = page.nextToken;
  } while (token !== undefined);
  const deleted: string[] = [];
  let freedBytes = 0;
  for (const { run, because } of chooseRunsToPrune(runs, policy, (options.now ?? Date.now)())) {
    try {
      freedBytes += (await options.deleteRun(run.runId)).freedBytes;
      deleted.push(run.runId);
      log.info({ run_id: run.runId, because }, "run deleted by the retention policy");
    } catch (error) {
      log.warn({ run_id: run.runId, error: messageOf(error) }, "run could not be deleted by the retention policy");
    }
  }
  return { deleted, freedBytes };
}
