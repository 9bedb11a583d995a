/**
 * The JSON of the page's API (docs/reference/page.md). Runs, artifacts, events and the host are as
 * the command line prints them.
 */
import type { z } from "zod";
import type { Core } from "../../dispatch/core/core.ts";
import type * as contract from "../../registry/contract.ts";
import { lineageMessage } from "../../dispatch/lineage/lineage_message.ts";
import { type LineageJson, lineageJson } from "../../registry/artifacts/lineage_json.ts";
import { beyondLimits } from "../../registry/event_data.ts";
import type { EventRow, RunRow } from "../../registry/row_types.ts";
import {
  type ArtifactJson,
  artifactJson,
  type EventJson,
  eventJson,
} from "../../runs/fields/host_json.ts";
import { runDetailJson } from "../../runs/fields/run_json.ts";
import type { RunDetailJson, RunJson } from "../../runs/fields/run_types.ts";
import type { SeriesSummary } from "../../records/stored.ts";

export type RunPage = Omit<RunDetailJson, "config"> & {
  artifacts: ArtifactJson[];
  heads: z.infer<typeof contract.PageHeads>;
};
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
    artifacts: core.runs.artifacts(row.runId).map(artifactJson),
    heads: heads(core, row.runId),
  };
}

export function lineagePage(core: Core, row: RunRow): LineageJson {
  return lineageJson(row.runId, row.name, lineageMessage(core.lineage.of(row)));
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
    ...{
      name,
      points,
      non_finite: nonFinite,
      last,
      min,
      max,
      mean,
      min_step: minStep,
      max_step: maxStep,
    },
    source: label || "stdout",
    copy_of: copyOf,
  };
}

/**
 * An earlier version stored events without bounds: one of those must not end the list and the live
 * streams.
 */
export function eventLine(row: EventRow): EventJson {
  const leftOut = beyondLimits(row.dataJson);
  return eventJson(
    leftOut === undefined ? row : { ...row, dataJson: JSON.stringify({ left_out: leftOut }) },
  );
}
