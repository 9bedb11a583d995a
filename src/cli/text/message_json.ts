/** The daemon's messages as the JSON of the command line (src/registry/contract.ts). */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { z } from "zod";
import type { Artifact, Event, HostResponse, Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { RunState } from "../../registry/lifecycle/lifecycle.ts";
import { rawJson } from "../../base/text/json_text.ts";
import type * as shapes from "../../registry/contract.ts";

export type RunJson = z.infer<typeof shapes.Run>;
export type RunDetailJson = z.infer<typeof shapes.RunDetail>;
export type EventJson = z.infer<typeof shapes.Event>;
export type ArtifactJson = z.infer<typeof shapes.Artifact>;
export type HostJson = z.infer<typeof shapes.Host>;

/** Unix milliseconds; null if it is not set. */
export function timeMs(at: Timestamp | undefined): number | null {
  return at === undefined ? null : Number(at.seconds) * 1000 + Math.floor(at.nanos / 1e6);
}

function time(at: Timestamp | undefined): string | null {
  const ms = timeMs(at);
  return ms === null ? null : new Date(ms).toISOString();
}

const text = (value: string) => value === "" ? null : value;
const positive = (value: bigint | number) => Number(value) === 0 ? null : Number(value);
const counts = (map: Record<string, bigint>) => Object.fromEntries(Object.entries(map).map(([k, v]) => [k, Number(v)]));

export function runJson(run: Run): RunJson {
  const t = run.telemetry;
  return {
    run_id: run.runId,
    name: run.name,
    state: run.state as RunState,
    outcome: text(run.outcome) as RunJson["outcome"],
    reason: text(run.reason),
    hint: text(run.hint),
    attempt: run.attempt,
    max_attempts: run.maxAttempts,
    priority: run.priority,
    queue_position: positive(run.queuePosition),
    waiting_for: text(run.waitingFor),
    gpus_requested: run.gpusRequested,
    gpu_slots: [...run.gpuSlots],
    tags: [...run.tags],
    notes: run.notes,
    digest: run.digest,
    submitted_at: time(run.submittedAt),
    started_at: time(run.startedAt),
    finished_at: time(run.finishedAt),
    last_heartbeat: time(run.lastHeartbeat),
    exit_code: run.exitCode ?? null,
    exit_signal: text(run.exitSignal),
    cancel_requested: run.cancelRequested,
    directory: run.directory,
    resume_from: text(run.resumeFrom),
    max_steps: positive(run.maxSteps),
    max_rate_hz: positive(run.maxRateHz),
    worker_id: text(run.workerId),
    worker_pid: positive(run.workerPid),
    proxy_pid: positive(run.proxyPid),
    placement: run.placement === undefined ? null : {
      launcher: run.placement.launcher,
      name: run.placement.name,
      job: text(run.placement.job),
      phase: run.placement.phase as NonNullable<RunJson["placement"]>["phase"],
      waiting_for: text(run.placement.waitingFor),
      expected_start: time(run.placement.expectedStart),
      nodes: [...run.placement.nodes],
      gpus: [...run.placement.gpus],
      end: text(run.placement.end),
    },
    telemetry: {
      steps: Number(t?.steps ?? 0),
      episodes: Number(t?.episodes ?? 0),
      events: Number(t?.events ?? 0),
      other_lines: Number(t?.otherLines ?? 0),
      malformed_lines: Number(t?.malformedLines ?? 0),
      violations: counts(t?.violations ?? {}),
      journal_position: Number(t?.journalPosition ?? 0),
      journal_size: Number(t?.journalSize ?? 0),
      mean_reward_100: t?.meanReward100 ?? null,
      steps_per_second: t?.stepsPerSecond ?? 0,
      last_record_at: time(t?.lastRecordAt),
      last_output_at: time(t?.lastOutputAt),
      metrics: Number(t?.metrics ?? 0),
      told_step: Number(t?.toldStep ?? 0),
      overwritten_steps: Number(t?.overwrittenSteps ?? 0),
      overwritten_episodes: Number(t?.overwrittenEpisodes ?? 0),
      told_reward: t?.toldReward === undefined ? null : { name: t.toldReward.name, value: t.toldReward.value },
      objective: t?.objective === undefined ? null : { name: t.objective.name, value: t.objective.value ?? null },
    },
    capabilities: run.capabilities === undefined ? null : {
      worker_kind: run.capabilities.workerKind,
      proto_version: run.capabilities.protoVersion,
      schema_id: run.capabilities.schemaId,
      schema_version: run.capabilities.schemaVersion,
      supports_pause: run.capabilities.supportsPause,
      supports_checkpoint: run.capabilities.supportsCheckpoint,
    },
  };
}

export function runDetailJson(run: Run): RunDetailJson {
  return {
    ...runJson(run),
    transitions: run.transitions.map((t) => ({
      seq: Number(t.seq),
      from: text(t.fromState) as RunState | null,
      to: t.toState as RunState,
      event: t.event,
      reason: text(t.reason),
      attempt: t.attempt,
      at: time(t.at),
    })),
    parameters: run.parameters.map(({ name, valueJson, source }) => ({ name, value: JSON.parse(valueJson), source })),
    config: run.configJson === "" ? null : JSON.parse(rawJson(run.configJson)),
    held_to: [...run.heldTo],
    ranks: run.ranks.map(({ rank, node, code, first }) => ({ rank, node: text(node), code: code ?? null, first })),
    stderr_tail: [...run.stderrTail],
  };
}

export function eventJson(event: Event): EventJson {
  return {
    seq: Number(event.seq),
    at: time(event.at),
    run_id: event.runId,
    run_name: event.runName,
    kind: event.kind,
    attempt: event.attempt,
    data: event.dataJson === "" ? {} : JSON.parse(event.dataJson),
  };
}

export function artifactJson(artifact: Artifact): ArtifactJson {
  return {
    path: artifact.path,
    kind: artifact.kind,
    bytes: Number(artifact.bytes),
    sha256: artifact.sha256,
    step: artifact.step === undefined ? null : Number(artifact.step),
    window_id: artifact.windowId,
    at: time(artifact.at),
  };
}

export function hostJson(host: HostResponse): HostJson {
  return {
    version: host.version,
    pid: Number(host.pid),
    started_at: time(host.startedAt),
    state_dir: host.stateDir,
    listen: host.listen,
    http: host.http,
    gpus: host.gpus.map((g) => ({ slot: g.slot, run_id: text(g.runId), name: g.name })),
    cpus: host.cpus,
    load_average: [...host.loadAverage],
    memory_bytes: Number(host.memoryBytes),
    memory_available_bytes: Number(host.memoryAvailableBytes),
    disk_bytes: Number(host.diskBytes),
    disk_available_bytes: Number(host.diskAvailableBytes),
    telemetry_bytes: Number(host.telemetryBytes),
    rss_bytes: Number(host.rssBytes),
    runs_by_state: counts(host.runsByState),
  };
}
