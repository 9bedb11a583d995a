/**
 * The report that the page's button saves: as `mosaic report` writes it, from the daemon's own
 * registry and telemetry.
 */
import { yieldToOthers } from "../../base/time/sleep.ts";
import { presentConfig } from "../../config/present_config.ts";
import { readCode } from "../../dispatch/code/run_code.ts";
import type { Core } from "../../dispatch/core/core.ts";
import type { ReportedRun, ReportOptions } from "../../runs/report/report.ts";
import { stepsReached } from "../../records/progress_series.ts";

/** @throws MosaicError `not_found`, `invalid_argument` */
export async function pageReport(
  core: Core,
  refs: readonly string[],
  options: ReportOptions,
): Promise<string> {
  // Most daemons never make a report.
  const { reportOf } = await import("../../runs/report/report.ts");
  const runs = new Map<string, ReportedRun>();
  for (const ref of refs) {
    const run = reported(core, ref);
    runs.set(run.run_id, run);
    await yieldToOthers();
  }
  // Reads are synchronous: other work runs between two of them.
  const reader = {
    async series(runId: string) {
      await yieldToOthers();
      return core.records.listSeries(runId);
    },
    async curve(runId: string, name: string, buckets: number, overwritten: boolean) {
      await yieldToOthers();
      return core.records.series(runId, name, 0, 0, buckets).filter((bucket) =>
        overwritten || !bucket.overwritten
      );
    },
  };
  return await reportOf(reader, Date.now(), [...runs.values()], options);
}

/** Secrets of the config are hidden. */
function reported(core: Core, ref: string): ReportedRun {
  const row = core.runs.resolve(ref);
  const { telemetry } = core.detail(row);
  const { runId, name, state, tags, notes, startedAt, finishedAt, configJson } = row;
  return {
    ...{ run_id: runId, name, state, tags, notes, startedAt, finishedAt },
    steps: stepsReached(telemetry),
    episodes: telemetry.episodes,
    objective: telemetry.objective?.name,
    parameters: core.parameters(runId),
    code: core.code(runId, false).slice(0, 1).map(readCode)[0],
    config: JSON.parse(presentConfig(configJson, false).text),
  };
}
