// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

import { isoTime } from "../../base/text/iso_time.ts";
import { rawJson } from "../../base/text/json_text.ts";
import type { StoredEpisode, StoredMetric, StoredStep, StoredWorkerEvent } from "./record_types.ts";

/** A number, or null and its name in a field of its own, where JSON has no number for it. */
function real(name: string, value: number): string {
  return Number.isFinite(value) ? `,"${name}":${value}` : `,"${name}":null,"${name}_text":"${value}"`;
}

/** Both forms of a record's time: for people, and exact. */
function times(tsNs: string): string {
  const ms = tsNs.length > 6 ? Number(tsNs.slice(0, -6)) : 0;
  return `,"timestamp":"${isoTime(ms)}","ts_ns":"${tsNs}"`;
}

export function stepLine(runIdJson: string, r: StoredStep): string {
  return `{"seq":${r.seq},"run_id":${runIdJson},"attempt":${r.attempt}` +
    `,"episode_index":${r.episode}` +
    `,"step_index":${r.step}` +
    `,"action":${r.actionJson === "" ? "null" : rawJson(r.actionJson)}` +
    `,"observation":${r.observationJson === "" ? "null" : rawJson(r.observationJson)}` +
    real("reward", r.reward) +
    `,"terminated":${r.terminated}` +
    `,"truncated":${r.truncated}` +
    times(r.tsNs) +
    (r.agentId === "" ? "" : `,"agent_id":${JSON.stringify(r.agentId)}`) +
    (r.workerId === "" ? "" : `,"worker_id":${JSON.stringify(r.workerId)}`) +
    (r.policyLabel === "" ? "" : `,"policy_label":${JSON.stringify(r.policyLabel)}`) +
    (r.backend === "" ? "" : `,"backend":${JSON.stringify(r.backend)}`) +
    (r.renderHintJson === "" ? "" : `,"render_hint":${rawJson(r.renderHintJson)}`) +
    (r.renderPayloadJson === "" ? "" : `,"render_payload":${rawJson(r.renderPayloadJson)}`) +
    (r.frameRef === "" ? "" : `,"frame_ref":${JSON.stringify(r.frameRef)}`) +
    (r.payloadVersion === 0 ? "" : `,"payload_version":${r.payloadVersion}`) +
    (r.episodeSeed === 0 ? "" : `,"episode_seed":${r.episodeSeed}`) +
    (r.infoJson === "" ? "" : `,"info":${rawJson(r.infoJson)}`) +
    "}";
}

export function episodeLine(runIdJson: string, r: StoredEpisode): string {
  return `{"seq":${r.seq},"run_id":${runIdJson},"attempt":${r.attempt}` +
    `,"episode_index":${r.episode}` +
    real("total_reward", r.totalReward) +
    `,"steps":${r.steps}` +
    `,"terminated":${r.terminated}` +
    `,"truncated":${r.truncated}` +
    times(r.tsNs) +
    (r.agentId === "" ? "" : `,"agent_id":${JSON.stringify(r.agentId)}`) +
    (r.workerId === "" ? "" : `,"worker_id":${JSON.stringify(r.workerId)}`) +
    (r.metadataJson === "" ? "" : `,"metadata":${rawJson(r.metadataJson)}`) +
    "}";
}

export function workerEventLine(runIdJson: string, r: StoredWorkerEvent): string {
  return `{"seq":${r.seq},"run_id":${runIdJson},"attempt":${r.attempt}` +
    `,"event":${JSON.stringify(r.kind)}` +
    times(r.tsNs) +
    (r.dataJson === "" ? "" : `,"payload":${rawJson(r.dataJson)}`) +
    "}";
}

export function metricLine(runIdJson: string, r: StoredMetric): string {
  return `{"seq":${r.seq},"run_id":${runIdJson}` +
    `,"name":${JSON.stringify(r.name)}` +
    real("value", r.value) +
    `,"step":${r.step}` +
    `,"timestamp":"${isoTime(r.tsMs)}"` +
    "}";
}
