/** Hosts, events and artifacts as messages of `mosaic.v1`. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HostInfo, SweepJson } from "../../dispatch/core/core.ts";
import type { ArtifactSchema, EventSchema, HostResponseSchema, SweepSchema } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { ArtifactRow, EventRow } from "../../registry/row_types.ts";
import { timestampOfMs } from "../../wire/time.ts";

function counts(values: Record<string, number>): Record<string, bigint> {
  return Object.fromEntries(Object.entries(values).map(([key, n]) => [key, BigInt(n)]));
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
    gpus: host.gpus.map((gpu) => ({
      ...{ slot: gpu.slot, runId: gpu.runId ?? "", name: gpu.name, uuid: gpu.uuid, others: gpu.others, lost: gpu.lost },
      ...{ memoryMb: gpu.memoryMb ?? undefined, usedMb: gpu.usedMb ?? undefined, percent: gpu.percent ?? undefined },
      ...{ watts: gpu.watts ?? undefined, celsius: gpu.celsius ?? undefined },
    })),
    cpus: host.cpus,
    loadAverage: host.loadAverage,
    memoryBytes: BigInt(host.memoryBytes),
    memoryAvailableBytes: BigInt(host.memoryAvailableBytes),
    diskBytes: BigInt(host.diskBytes),
    diskAvailableBytes: BigInt(host.diskAvailableBytes),
    telemetryBytes: BigInt(host.telemetryBytes),
    rssBytes: BigInt(host.rssBytes),
    runsByState: counts(host.runsByState),
    gpuProblem: host.gpuProblem,
  };
}

export function sweepMessage(sweep: SweepJson): MessageInitShape<typeof SweepSchema> {
  const { sweep_id: sweepId, name, state, total, made, states } = sweep;
  return { sweepId, name, state, total, made, states, json: JSON.stringify(sweep) };
}
