/** Runs, hosts and artifacts as messages of `mosaic.v1`. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HostInfo, RunDetail, SweepJson } from "../../dispatch/core/core.ts";
import type {
  ArtifactSchema,
  EventSchema,
  HostResponseSchema,
  RunSchema,
  SweepSchema,
  TransitionSchema,
} from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { ArtifactRow, EventRow, TransitionRow } from "../../registry/row_types.ts";
import { optionalTimestamp, timestampOfMs } from "../../wire/time.ts";

type RunInit = Exclude<MessageInitShape<typeof RunSchema>, { $typeName: string }>;

function counts(values: Record<string, number>): Record<string, bigint> {
  return Object.fromEntries(Object.entries(values).map(([key, n]) => [key, BigInt(n)]));
}

export function runMessage({ row, telemetry: t, ...detail }: RunDetail): RunInit {
  return {
    runId: row.runId,
    name: row.name,
    state: row.state,
    outcome: row.outcome ?? "",
    reason: row.reason ?? "",
    hint: row.hint ?? "",
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    priority: row.priority,
    queuePosition: detail.queuePosition,
    waitingFor: detail.waitingFor,
    gpusRequested: row.gpusRequested,
    gpuSlots: row.gpuSlots,
    tags: row.tags,
    notes: row.notes,
    digest: row.digest,
    submittedAt: timestampOfMs(row.createdAt),
    startedAt: optionalTimestamp(row.startedAt),
    finishedAt: optionalTimestamp(row.finishedAt),
    lastHeartbeat: optionalTimestamp(row.lastHeartbeatAt),
    exitCode: row.exitCode ?? undefined,
    exitSignal: row.exitSignal ?? "",
    cancelRequested: row.cancelRequestedAt !== null,
    directory: detail.directory,
    telemetry: {
      steps: BigInt(t.steps),
      episodes: BigInt(t.episodes),
      events: BigInt(t.events),
      otherLines: BigInt(t.otherLines),
      malformedLines: BigInt(t.malformedLines),
      violations: counts(t.violations),
      journalPosition: BigInt(t.journalPosition),
      journalSize: BigInt(t.journalSize),
      meanReward100: t.meanReward100 ?? undefined,
      stepsPerSecond: t.stepsPerSecond,
      lastRecordAt: optionalTimestamp(t.lastRecordAt),
      lastOutputAt: optionalTimestamp(t.lastOutputAt),
      metrics: BigInt(t.metrics),
      toldStep: BigInt(t.toldStep),
      toldReward: t.toldReward ?? undefined,
      overwrittenSteps: BigInt(t.overwritten.steps),
      overwrittenEpisodes: BigInt(t.overwritten.episodes),
    },
    capabilities: row.workerKind === null ? undefined : {
      workerKind: row.workerKind,
      protoVersion: row.protoVersion ?? "",
      schemaId: row.schemaId ?? "",
      schemaVersion: row.schemaVersion ?? 0,
      supportsPause: row.supportsPause,
      supportsCheckpoint: row.supportsCheckpoint,
    },
    resumeFrom: row.resumeFrom ?? "",
    workerId: row.workerId,
    workerPid: BigInt(row.worker?.pid ?? 0),
    proxyPid: BigInt(row.proxy?.pid ?? 0),
    maxSteps: BigInt(detail.maxSteps),
    maxRateHz: row.maxRateHz,
    damaged: row.damaged,
    placement: row.placement === null ? undefined : {
      launcher: row.placement.launcher,
      name: row.placement.name,
      job: row.placement.job ?? "",
      phase: row.placement.phase,
      waitingFor: row.placement.waitingFor,
      expectedStart: optionalTimestamp(row.placement.expectedStart),
      nodes: row.placement.nodes,
      gpus: row.placement.gpus,
      end: row.placement.end ?? "",
    },
  };
}

function transitionMessage(t: TransitionRow): MessageInitShape<typeof TransitionSchema> {
  return {
    seq: BigInt(t.seq),
    fromState: t.from ?? "",
    toState: t.to,
    event: t.event,
    reason: t.reason ?? "",
    attempt: t.attempt,
    at: timestampOfMs(t.at),
  };
}

/** With the fields that only GetRun returns. */
export function fullRunMessage(detail: RunDetail, transitions: TransitionRow[]) {
  return {
    ...runMessage(detail),
    transitions: transitions.map(transitionMessage),
    configJson: detail.row.configJson,
    stderrTail: detail.row.stderrTail,
  };
}

export function eventMessage(event: EventRow): MessageInitShape<typeof EventSchema> {
  return {
    seq: BigInt(event.seq),
    at: timestampOfMs(event.at),
    runId: event.runId,
    runName: event.runName,
    kind: event.kind,
    attempt: event.attempt,
    dataJson: event.dataJson,
  };
}

export function artifactMessage(artifact: ArtifactRow): MessageInitShape<typeof ArtifactSchema> {
  return {
    path: artifact.path,
    kind: artifact.kind,
    bytes: BigInt(artifact.bytes),
    sha256: artifact.sha256,
    step: artifact.step === null ? undefined : BigInt(artifact.step),
    at: timestampOfMs(artifact.at),
    windowId: artifact.windowId,
  };
}

export function hostMessage(host: HostInfo): MessageInitShape<typeof HostResponseSchema> {
  return {
    version: host.version,
    pid: BigInt(host.pid),
    startedAt: timestampOfMs(host.startedAt),
    stateDir: host.stateDir,
    listen: host.listen,
    http: host.http,
    gpus: host.gpus.map((gpu) => ({ slot: gpu.slot, runId: gpu.runId ?? "", name: gpu.name })),
    cpus: host.cpus,
    loadAverage: host.loadAverage,
    memoryBytes: BigInt(host.memoryBytes),
    memoryAvailableBytes: BigInt(host.memoryAvailableBytes),
    diskBytes: BigInt(host.diskBytes),
    diskAvailableBytes: BigInt(host.diskAvailableBytes),
    telemetryBytes: BigInt(host.telemetryBytes),
    rssBytes: BigInt(host.rssBytes),
    runsByState: counts(host.runsByState),
  };
}

export function sweepMessage(sweep: SweepJson): MessageInitShape<typeof SweepSchema> {
  const { sweep_id: sweepId, name, state, total, made, states } = sweep;
  return { sweepId, name, state, total, made, states, json: JSON.stringify(sweep) };
}
