/** The JSON of the page's API (docs/reference/page.md). Times are Unix milliseconds, sizes are bytes, absent is null. */
import type { z } from "zod";
import type { Core, HostInfo, RunDetail } from "../../dispatch/core/core.ts";
import type * as contract from "../../registry/contract.ts";
import { beyondLimits } from "../../registry/event_data.ts";
import type { EventRow, TransitionRow } from "../../registry/row_types.ts";
import type { SeriesSummary } from "../../records/stored.ts";
import { parsed } from "../../records/json_values.ts";
import { stepsReached } from "../../records/progress_series.ts";

export type RunLine = z.infer<typeof contract.PageRun>;
export type RunPage = z.infer<typeof contract.PageRunDetail>;
export type EventLine = z.infer<typeof contract.PageEvent>;
export type HostLine = z.infer<typeof contract.PageHost>;
export type SeriesColumns = z.infer<typeof contract.PageSeries>;
export type SeriesNames = z.infer<typeof contract.PageSeriesNames>;
export type ComparedRun = z.infer<typeof contract.PageComparedRun>;
export type ColumnNames = z.infer<typeof contract.PageColumnNames>;
export type RunColumn = z.infer<typeof contract.PageColumn>;
export type Frame = z.infer<typeof contract.PageFrame>;
export type LiveFrame = z.infer<typeof contract.PageLiveFrame>;
export type MediaEvent = z.infer<typeof contract.PageMediaEvent>;

export function runLine(detail: RunDetail): RunLine {
  const { row, telemetry } = detail;
  return {
    run_id: row.runId,
    name: row.name,
    state: row.state,
    attempt: row.attempt,
    max_attempts: row.maxAttempts,
    priority: row.priority,
    tags: row.tags,
    notes: row.notes,
    is_eval: row.baseDir === "evals",
    gpus: row.gpuSlots,
    gpus_requested: row.gpusRequested,
    queue_position: detail.queuePosition,
    waiting_for: detail.waitingFor,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
    started_at: row.startedAt,
    finished_at: row.finishedAt,
    outcome: row.outcome,
    reason: row.reason,
    steps: stepsReached(telemetry),
    episodes: telemetry.episodes,
    metrics: telemetry.metrics,
    overwritten: telemetry.overwritten,
    steps_per_second: telemetry.stepsPerSecond,
    mean_reward_100: telemetry.meanReward100,
    told_reward: telemetry.toldReward,
    objective: telemetry.objective,
    last_record_at: telemetry.lastRecordAt,
    last_output_at: telemetry.lastOutputAt,
    backlog_bytes: Math.max(0, telemetry.journalSize - telemetry.journalPosition),
    max_steps: detail.maxSteps,
    cancel_requested: row.cancelRequestedAt !== null,
    pause_requested: row.pauseRequested,
    max_rate_hz: row.maxRateHz,
    placement: row.placement === null ? null : {
      launcher: row.placement.launcher,
      name: row.placement.name,
      job: row.placement.job,
      phase: row.placement.phase,
      waiting_for: row.placement.waitingFor || null,
      expected_start: row.placement.expectedStart,
      nodes: row.placement.nodes,
      gpus: row.placement.gpus,
      end: row.placement.end,
    },
  };
}

export function runPage(core: Core, detail: RunDetail): RunPage {
  const { row, telemetry } = detail;
  return {
    ...runLine(detail),
    digest: row.digest,
    base_dir: row.baseDir,
    directory: detail.directory,
    hint: row.hint,
    exit_code: row.exitCode,
    exit_signal: row.exitSignal,
    stderr_tail: row.stderrTail,
    cancel_reason: row.cancelReason,
    last_heartbeat_at: row.lastHeartbeatAt,
    not_before: row.notBefore,
    worker_pid: row.worker?.pid ?? null,
    proxy_pid: row.proxy?.pid ?? null,
    host_gpus: detail.hostGpus,
    worker_id: row.workerId,
    agent_id: row.agentId,
    worker_kind: row.workerKind,
    proto_version: row.protoVersion,
    schema_id: row.schemaId,
    schema_version: row.schemaVersion,
    supports_pause: row.supportsPause,
    supports_checkpoint: row.supportsCheckpoint,
    resume_from: row.resumeFrom,
    other_lines: telemetry.otherLines,
    malformed_lines: telemetry.malformedLines,
    violations: telemetry.violations,
    heads: heads(core, row.runId),
    parameters: core.parameters(row.runId),
    transitions: core.runs.transitions(row.runId).map(transitionLine),
    artifacts: core.runs.artifacts(row.runId).map(({ path, kind, bytes, sha256, step, windowId, at }) => ({
      path,
      kind,
      bytes,
      sha256,
      step,
      window_id: windowId,
      at,
    })),
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

function transitionLine({ seq, from, to, event, reason, attempt, at }: TransitionRow) {
  return { seq, from, to, event, reason, attempt, at };
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
    gpus: host.gpus.map((g) => ({ slot: g.slot, run_id: g.runId, name: g.name })),
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
