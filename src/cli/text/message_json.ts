/** The daemon's messages as the JSON of the command line (src/registry/contract.ts). */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { z } from "zod";
import type { Artifact, Event, HostResponse } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { timeMs } from "../../runs/fields/run_json.ts";
import type * as shapes from "../../registry/contract.ts";

export type EventJson = z.infer<typeof shapes.Event>;
export type ArtifactJson = z.infer<typeof shapes.Artifact>;
export type HostJson = z.infer<typeof shapes.Host>;

function time(at: Timestamp | undefined): string | null {
  const ms = timeMs(at);
  return ms === null ? null : new Date(ms).toISOString();
}

const text = (value: string) => value === "" ? null : value;
const counts = (map: Record<string, bigint>) => Object.fromEntries(Object.entries(map).map(([k, v]) => [k, Number(v)]));

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
    gpus: host.gpus.map((g) => ({
      ...{ slot: g.slot, run_id: text(g.runId), name: g.name, uuid: g.uuid, memory_mb: g.memoryMb ?? null },
      ...{ used_mb: g.usedMb ?? null, percent: g.percent ?? null, watts: g.watts ?? null, celsius: g.celsius ?? null },
      ...{ others: g.others, lost: g.lost },
    })),
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
