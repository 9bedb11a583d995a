/**
 * The JSON of the page's API (docs/page.md). Runs and artifacts are as the command line prints them; elsewhere times are Unix
 * milliseconds. Sizes are bytes, absent is null.
 */
import type { z } from "zod";
import type { Core, HostInfo } from "../../dispatch/core/core.ts";
import type * as contract from "../../registry/contract.ts";
import { beyondLimits } from "../../registry/event_data.ts";
import type { EventRow, RunRow } from "../../registry/row_types.ts";
import { runDetailJson } from "../../runs/fields/run_json.ts";
import type { RunDetailJson, RunJson } from "../../runs/fields/run_types.ts";
import type { SeriesSummary } from "../../records/stored.ts";
import { parsed } from "../../records/json_values.ts";

export type RunPage = Omit<RunDetailJson, "config"> & {
  artifacts: z.infer<typeof contract.Artifact>[];
  heads: z.infer<typeof contract.PageHeads>;
};
export type EventLine = z.infer<typeof contract.PageEvent>;
export type HostLine = z.infer<typeof contract.PageHost>;
export type SeriesColumns = z.infer<typeof contract.PageSeries>;
export type SeriesNames = z.infer<typeof contract.PageSeriesNames>;
export type ComparedRun = RunJson & Pick<RunDetailJson, "parameters">;
export type ColumnNames = z.infer<typeof contract.PageColumnNames>;
export type RunColumn = z.infer<typeof contract.PageColumn>;
export type Frame = z.infer<typeof contract.PageFrame>;
export type LiveFrame = z.infer<typeof contract.PageLiveFrame>;
export type MediaEvent = z.infer<typeof contract.PageMediaEvent>;

/** Without its config, which the page asks for with its secrets hidden. */
export function runPage(core: Core, row: RunRow): RunPage {
  const { config: _, ...run } = runDetailJson(core.whole(row));
  return {
    ...run,
    artifacts: core.runs.artifacts(row.runId).map(({ path, kind, bytes, sha256, step, windowId, at }) => ({
      path,
      kind,
      bytes,
      sha256,
      step,
      window_id: windowId,
      at: new Date(at).toISOString(),
    })),
    heads: heads(core, row.runId),
  };
}

export function heads(core: Core, runId: string): z.infer<typeof contract.PageHeads> {
  return {
    steps: core.records.head(runId, "steps"),
    episodes: core.records.head(runId, "episodes"),
    events: core.records.head(runId, "events"),
    metrics: core.records.head(runId, "metrics"),
  };
}

export function seriesLine(
  { name, points, nonFinite, last, min, max, mean, minStep, maxStep, label, copyOf }: SeriesSummary,
): z.infer<typeof contract.Series> {
  return {
    ...{ name, points, non_finite: nonFinite, last, min, max, mean, min_step: minStep, max_step: maxStep },
    source: label || "stdout",
    copy_of: copyOf,
  };
}

export function eventLine(row: EventRow): EventLine {
  // An earlier version stored events without bounds: one of those must not end the list and the live streams.
  const leftOut = beyondLimits(row.dataJson);
  return {
    seq: row.seq,
    at: row.at,
    run_id: row.runId,
    run_name: row.runName,
    kind: row.kind,
    attempt: row.attempt,
    data: leftOut === undefined ? parsed(row.dataJson) : { left_out: leftOut },
  };
}

export function hostLine(host: HostInfo): HostLine {
  return {
    version: host.version,
    pid: host.pid,
    started_at: host.startedAt,
    state_dir: host.stateDir,
    listen: host.listen,
    http: host.http,
    gpus: host.gpus.map((g) => ({
      ...{ slot: g.slot, run_id: g.runId, name: g.name, uuid: g.uuid, memory_mb: g.memoryMb, used_mb: g.usedMb },
      ...{ percent: g.percent, watts: g.watts, celsius: g.celsius, others: g.others, lost: g.lost },
    })),
    cpus: host.cpus,
    load_average: host.loadAverage,
    memory_bytes: host.memoryBytes,
    memory_available_bytes: host.memoryAvailableBytes,
    disk_bytes: host.diskBytes,
    disk_available_bytes: host.diskAvailableBytes,
    telemetry_bytes: host.telemetryBytes,
    rss_bytes: host.rssBytes,
    runs_by_state: host.runsByState,
  };
}
