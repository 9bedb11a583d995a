/** A step line of any dialect as a StepRecord (the table is in docs/telemetry.md). */
import type { StepRecord } from "../batch.ts";
import { toFlag, toIndex, toLabel, toNumber } from "./coerce.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { nanosecondsOf, timeOf } from "./timestamps.ts";
import { withoutNonFinite } from "./tolerant.ts";

/** What a proxy knows better than the worker's lines. */
export interface LineContext {
  /** For records that name no agent. */
  agentId: string;
  /** Wins over what a record says; "" lets the record speak. */
  workerId: string;
}

const EPISODE = [SLOT.episode_index, SLOT.episode];
const EPISODE_NUMBER = [SLOT.episode_number];
const STEP = [SLOT.step_index, SLOT.step, SLOT.time_step];
const REWARD = [SLOT.reward];
const PAYLOAD_VERSION = [SLOT.payload_version];
const EPISODE_SEED = [SLOT.episode_seed, SLOT.seed];
const TIME = [SLOT.ts, SLOT.timestamp];
const ACTION = [SLOT.action];
const OBSERVATION = [SLOT.observation];
const RENDER_PAYLOAD = [SLOT.render_payload];
const RENDER_HINT = [SLOT.render_hint, SLOT.render];

const EPISODE_SUFFIX = /-ep(\d{1,15})$/;

/** The first of the slots that holds something, as an index. `undefined`: it holds what is no number. A value that had
 * to be changed stays among the leftovers, so that what the worker said is not lost. */
export function takeIndex(fields: Fields, slots: readonly number[]): number | undefined | "absent" {
  for (const slot of slots) {
    if (!fields.has(slot)) continue;
    const value = fields.value(slot);
    if (value === null) {
      fields.take(slot);
      continue;
    }
    const index = toIndex(value);
    if (index !== undefined && (index === value || typeof value === "string")) fields.take(slot);
    return index;
  }
  return "absent";
}

/** metadata.episode_index, else episode_index, episode, the end of episode_id, episode_number - 1. */
export function takeEpisode(fields: Fields, metadata: unknown): number | undefined {
  if (typeof metadata === "object" && metadata !== null) {
    const inner = (metadata as Record<string, unknown>).episode_index;
    const index = inner === undefined || inner === null ? undefined : toIndex(inner);
    if (index !== undefined) {
      if (fields.value(SLOT.episode_index) === index) fields.take(SLOT.episode_index);
      if (fields.value(SLOT.episode) === index) fields.take(SLOT.episode);
      return index;
    }
  }
  const index = takeIndex(fields, EPISODE);
  if (index !== "absent") {
    if (EPISODE_SUFFIX.test(toLabel(fields.value(SLOT.episode_id)))) fields.take(SLOT.episode_id);
    return index;
  }
  const suffix = EPISODE_SUFFIX.exec(toLabel(fields.value(SLOT.episode_id)));
  if (suffix !== null) {
    fields.take(SLOT.episode_id);
    return Number(suffix[1]);
  }
  const number = takeIndex(fields, EPISODE_NUMBER);
  return number === "absent" ? 0 : number === undefined ? undefined : Math.max(0, number - 1);
}

/** The first of the slots that holds something, as a number; `undefined` when that is none. Per-agent values are summed
 * and stay among the leftovers. */
export function takeNumber(fields: Fields, slots: readonly number[]): number | undefined {
  for (const slot of slots) {
    if (!fields.has(slot)) continue;
    if (!fields.isCompound(slot)) fields.take(slot);
    if (!fields.isNull(slot)) return toNumber(fields.value(slot), 0);
  }
  return 0;
}

export function takeFlag(fields: Fields, slot: number): boolean {
  if (!fields.has(slot)) return false;
  if (!fields.isCompound(slot)) fields.take(slot);
  return toFlag(fields.value(slot));
}

export function takeLabel(fields: Fields, slot: number): string {
  if (!fields.has(slot)) return "";
  fields.take(slot);
  return toLabel(fields.value(slot));
}

/** ts_unix_ns, else ts, else timestamp. What is no time stays among the leftovers. */
export function takeTime(fields: Fields): string {
  if (fields.has(SLOT.ts_unix_ns)) {
    const value = fields.value(SLOT.ts_unix_ns);
    const time = nanosecondsOf(typeof value === "string" ? value.trim() : fields.text(SLOT.ts_unix_ns));
    if (time !== "") {
      fields.take(SLOT.ts_unix_ns);
      return time;
    }
  }
  for (const slot of TIME) {
    if (!fields.has(slot)) continue;
    const time = timeOf(fields.value(slot), fields.text(slot));
    if (time === "") continue;
    fields.take(slot);
    return time;
  }
  return "";
}

/** JSON text of `*_json` (text that holds JSON) or else of the plain field, verbatim; "" when both are absent or null. */
function takeJson(fields: Fields, encoded: number, plain: readonly number[]): string {
  if (fields.has(encoded)) {
    fields.take(encoded);
    if (fields.isText(encoded)) return jsonInText(fields.value(encoded) as string, fields.text(encoded));
    if (!fields.isNull(encoded)) return fields.text(encoded);
  }
  for (const slot of plain) {
    if (!fields.has(slot)) continue;
    fields.take(slot);
    if (!fields.isNull(slot)) return fields.text(slot);
  }
  return "";
}

/** A text that is JSON stands for it; any other is a JSON string. @param asString The text as JSON string. */
function jsonInText(text: string, asString: string): string {
  if (text === "") return "";
  try {
    JSON.parse(text);
    return text;
  } catch {
    if (!text.includes("NaN") && !text.includes("Infinity")) return asString;
  }
  const repaired = withoutNonFinite(text);
  try {
    JSON.parse(repaired);
    return repaired;
  } catch {
    return asString;
  }
}

/** A frame may also come as JSON in a text; as a field it is an object. */
function takePayload(fields: Fields): string {
  const { render_payload: plain, render_payload_json: encoded } = SLOT;
  if (!fields.isText(plain)) return takeJson(fields, encoded, RENDER_PAYLOAD);
  fields.take(plain);
  return jsonInText(fields.value(plain) as string, fields.text(plain));
}

function metadataOf(fields: Fields): unknown {
  if (!fields.has(SLOT.metadata_json) && !fields.has(SLOT.metadata)) return undefined;
  return parsedMetadata(fields.value(SLOT.metadata_json)) ?? parsedMetadata(fields.value(SLOT.metadata));
}

/** Metadata as an object: some workers write it as JSON text. */
export function parsedMetadata(value: unknown): Record<string, unknown> | undefined {
  let object = value;
  if (typeof value === "string") {
    try {
      object = JSON.parse(withoutNonFinite(value));
    } catch {
      return undefined;
    }
  }
  return typeof object === "object" && object !== null && !Array.isArray(object)
    ? object as Record<string, unknown>
    : undefined;
}

/** @returns The record, or why the line is malformed. */
export function readStep(fields: Fields, context: LineContext): StepRecord | string {
  fields.take(SLOT.run_id);
  const episode = takeEpisode(fields, metadataOf(fields));
  if (episode === undefined) return "episode is no number";
  const step = takeIndex(fields, STEP);
  if (step === undefined) return "step_index is no number";
  const reward = takeNumber(fields, REWARD);
  if (reward === undefined) return "reward is no number";
  const agentId = takeLabel(fields, SLOT.agent_id);
  const workerId = takeLabel(fields, SLOT.worker_id);
  const payloadVersion = takeIndex(fields, PAYLOAD_VERSION);
  const episodeSeed = takeIndex(fields, EPISODE_SEED);
  const record: StepRecord = {
    episode,
    step: step === "absent" ? 0 : step,
    reward,
    terminated: takeFlag(fields, SLOT.terminated),
    truncated: takeFlag(fields, SLOT.truncated),
    tsNs: takeTime(fields),
    agentId: agentId === "" ? context.agentId : agentId,
    workerId: context.workerId === "" ? workerId : context.workerId,
    policyLabel: takeLabel(fields, SLOT.policy_label),
    backend: takeLabel(fields, SLOT.backend),
    actionJson: takeJson(fields, SLOT.action_json, ACTION),
    observationJson: takeJson(fields, SLOT.observation_json, OBSERVATION),
    renderHintJson: takeJson(fields, SLOT.render_hint_json, RENDER_HINT),
    renderPayloadJson: takePayload(fields),
    frameRef: takeLabel(fields, SLOT.frame_ref),
    payloadVersion: typeof payloadVersion === "number" ? payloadVersion : 0,
    episodeSeed: typeof episodeSeed === "number" ? episodeSeed : 0,
    infoJson: "",
  };
  const leftovers = fields.leftovers();
  if (leftovers !== "") record.infoJson = `{${leftovers}}`;
  return record;
}
