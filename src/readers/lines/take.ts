/**
 * Reads values from the fields of a line, for all dialects (the table is in
 * docs/reference/telemetry.md).
 */
import { parsedObject, repairedJson } from "../../base/text/json_text.ts";
import type { FieldTaker } from "../../gen/records/line_fields.ts";
import { toFlag, toIndex, toLabel, toNumber } from "./coerce.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { nanosecondsOf, timeOf } from "./timestamps.ts";

const EPISODE = [SLOT.episode_index, SLOT.episode];
const EPISODE_NUMBER = [SLOT.episode_number];
const TIME = [SLOT.ts, SLOT.timestamp];
const RENDER_PAYLOAD = [SLOT.render_payload];

const EPISODE_SUFFIX = /-ep(\d{1,15})$/;

/**
 * The first slot with a value, as an index. `undefined`: it is not a number. A value that had to be
 * changed stays among the leftovers, so that the worker's text is not lost.
 */
function takeIndex(fields: Fields, slots: readonly number[]): number | undefined | "absent" {
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

/**
 * metadata.episode_index, else episode_index, episode, the end of episode_id, episode_number - 1.
 */
function takeEpisode(fields: Fields, metadata: unknown): number | undefined {
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
    if (
      fields.has(SLOT.episode_id) && EPISODE_SUFFIX.test(toLabel(fields.value(SLOT.episode_id)))
    ) {
      fields.take(SLOT.episode_id);
    }
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

/**
 * The first slot with a value, as a number, else `absent`; `undefined` if it is not a number.
 * Per-agent values are summed and stay among the leftovers.
 */
function takeNumber(fields: Fields, slots: readonly number[], absent: number): number | undefined {
  for (const slot of slots) {
    if (!fields.has(slot)) continue;
    if (!fields.isCompound(slot)) fields.take(slot);
    if (!fields.isNull(slot)) return toNumber(fields.value(slot), 0);
  }
  return absent;
}

function takeFlag(fields: Fields, slot: number): boolean {
  if (!fields.has(slot)) return false;
  if (!fields.isCompound(slot)) fields.take(slot);
  return toFlag(fields.value(slot));
}

function takeLabel(fields: Fields, slot: number): string {
  if (!fields.has(slot)) return "";
  fields.take(slot);
  return toLabel(fields.value(slot));
}

/** ts_unix_ns, else ts, else timestamp. A value that is no time stays among the leftovers. */
function takeTime(fields: Fields): string {
  if (fields.has(SLOT.ts_unix_ns)) {
    const value = fields.value(SLOT.ts_unix_ns);
    const time = nanosecondsOf(
      typeof value === "string" ? value.trim() : fields.text(SLOT.ts_unix_ns),
    );
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

/**
 * JSON text of `*_json` (text that contains JSON), else of the plain field as written; "" if both
 * are absent or null.
 */
function takeJson(fields: Fields, encoded: number, plain: readonly number[]): string {
  if (fields.has(encoded)) {
    fields.take(encoded);
    if (fields.isText(encoded)) {
      return jsonInText(fields.value(encoded) as string, fields.text(encoded));
    }
    if (!fields.isNull(encoded)) return fields.text(encoded);
  }
  for (const slot of plain) {
    if (!fields.has(slot)) continue;
    fields.take(slot);
    if (!fields.isNull(slot)) return fields.text(slot);
  }
  return "";
}

/**
 * If a text is JSON, that JSON; otherwise a JSON string. @param asString the text as JSON string.
 */
function jsonInText(text: string, asString: string): string {
  return text === "" ? "" : repairedJson(text) ?? asString;
}

/** A frame may also be JSON in a text; the result is an object in any case. */
function takePayload(fields: Fields): string {
  const { render_payload: plain, render_payload_json: encoded } = SLOT;
  if (!fields.isText(plain)) return takeJson(fields, encoded, RENDER_PAYLOAD);
  fields.take(plain);
  return jsonInText(fields.value(plain) as string, fields.text(plain));
}

/** Metadata as an object: some workers write it as JSON text. */
export function parsedMetadata(value: unknown): Record<string, unknown> | undefined {
  if (typeof value === "string") return parsedObject(value);
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as Record<string, unknown>
    : undefined;
}

export const TAKE: FieldTaker<Fields> = {
  episode: takeEpisode,
  index: takeIndex,
  number: takeNumber,
  flag: takeFlag,
  label: takeLabel,
  time: takeTime,
  json: takeJson,
  payload: takePayload,
};
