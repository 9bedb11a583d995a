/**
 * The public JSON of stored records, one object a line (docs/telemetry.md): what `mosaic steps -o jsonl` prints and
 * StreamTelemetry sends. Built as text, because the worker's own JSON is passed through as it is, not decoded and encoded.
 */
import type { StoredEpisode, StoredMetric, StoredOf, StoredStep, StoredWorkerEvent, TelemetryKind } from "./types.ts";

/** Texts that are JSON beyond doubt without parsing: numbers, and flat arrays of numbers. */
const PLAIN_NUMBERS =
  /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|\[(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:, ?(?!\])|(?=\])))*\])$/;

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The worker's JSON text on one line. What is no JSON becomes a JSON string; Python's bare NaN and infinities null. */
export function rawJson(text: string): string {
  if (text.length < 4096 && PLAIN_NUMBERS.test(text)) return text;
  if (!isJson(text)) return repaired(text);
  // Line breaks in valid JSON are white space between tokens.
  return text.includes("\n") || text.includes("\r") ? text.replace(/[\r\n]+/g, " ") : text;
}

function repaired(text: string): string {
  const finite = text.replace(
    /("(?:[^"\\]|\\.)*")|-?\b(?:NaN|Infinity)\b/g,
    (_, string?: string) => string ?? "null",
  );
  return finite === text || !isJson(finite) ? JSON.stringify(text) : finite.replace(/[\r\n]+/g, " ");
}

/** A number, or null and its name in a field of its own, where JSON has no number for it. */
function real(name: string, value: number): string {
  return Number.isFinite(value) ? `"${name}":${value}` : `"${name}":null,"${name}_text":"${value}"`;
}

let cachedSecond = -1;
let cachedPrefix = "";

/** RFC 3339 in milliseconds. The text up to the seconds is kept from call to call: rows come in order of time. */
export function isoTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== cachedSecond) {
    const date = new Date(second * 1000);
    if (Number.isNaN(date.getTime())) return "";
    cachedPrefix = date.toISOString().slice(0, -4);
    cachedSecond = second;
  }
  return `${cachedPrefix}${String(ms - second * 1000).padStart(3, "0")}Z`;
}

/** Both forms of a record's time: for people, and exact. */
function times(tsNs: string): string {
  const ms = tsNs.length > 6 ? Number(tsNs.slice(0, -6)) : 0;
  return `"timestamp":"${isoTime(ms)}","ts_ns":"${tsNs}"`;
}

function optional(name: string, text: string): string {
  return text === "" ? "" : `,"${name}":${JSON.stringify(text)}`;
}

function optionalRaw(name: string, text: string): string {
  return text === "" ? "" : `,"${name}":${rawJson(text)}`;
}

/** @param runIdJson the run's id as JSON, so that it is encoded once for many rows */
function start(runIdJson: string, row: { seq: number; attempt: number }): string {
  return `{"seq":${row.seq},"run_id":${runIdJson},"attempt":${row.attempt}`;
}

function stepLine(runIdJson: string, s: StoredStep): string {
  return start(runIdJson, s) + `,"episode_index":${s.episode},"step_index":${s.step}` +
    `,"action":${s.actionJson === "" ? "null" : rawJson(s.actionJson)}` +
    `,"observation":${s.observationJson === "" ? "null" : rawJson(s.observationJson)}` +
    `,${real("reward", s.reward)},"terminated":${s.terminated},"truncated":${s.truncated},${times(s.tsNs)}` +
    optional("agent_id", s.agentId) + optional("worker_id", s.workerId) + optional("policy_label", s.policyLabel) +
    optional("backend", s.backend) + optionalRaw("render_hint", s.renderHintJson) +
    optionalRaw("render_payload", s.renderPayloadJson) + optional("frame_ref", s.frameRef) +
    (s.payloadVersion === 0 ? "" : `,"payload_version":${s.payloadVersion}`) +
    (s.episodeSeed === 0 ? "" : `,"episode_seed":${s.episodeSeed}`) + optionalRaw("info", s.infoJson) + "}";
}

function episodeLine(runIdJson: string, e: StoredEpisode): string {
  return start(runIdJson, e) + `,"episode_index":${e.episode},${real("total_reward", e.totalReward)}` +
    `,"steps":${e.steps},"terminated":${e.terminated},"truncated":${e.truncated},${times(e.tsNs)}` +
    optional("agent_id", e.agentId) + optional("worker_id", e.workerId) + optionalRaw("metadata", e.metadataJson) + "}";
}

function eventLine(runIdJson: string, e: StoredWorkerEvent): string {
  return start(runIdJson, e) + `,"event":${JSON.stringify(e.kind)},${times(e.tsNs)}` +
    optionalRaw("payload", e.dataJson) + "}";
}

function metricLine(runIdJson: string, m: StoredMetric): string {
  return `{"seq":${m.seq},"run_id":${runIdJson},"name":${JSON.stringify(m.name)},"value":${m.value}` +
    `,"step":${m.step},"timestamp":"${isoTime(m.tsMs)}"}`;
}

/** Rows as lines, each ending with "\n". */
export function jsonLines<K extends TelemetryKind>(runId: string, kind: K, rows: readonly StoredOf[K][]): string {
  const id = JSON.stringify(runId);
  const line = {
    steps: stepLine,
    episodes: episodeLine,
    events: eventLine,
    metrics: metricLine,
  }[kind] as (runIdJson: string, row: StoredOf[K]) => string;
  let text = "";
  for (const row of rows) text += line(id, row) + "\n";
  return text;
}
