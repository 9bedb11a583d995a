/**
 * A submitted config with fields that options of the command line set. Everything else stays as it
 * was written.
 */
import { MosaicError } from "../../base/errors.ts";
import {
  type JsonObject,
  type JsonValue,
  readJson,
  writeJson,
} from "../../config/lossless_json.ts";

export interface ChangedFields {
  /**
   * `metadata.observe`: patterns are added to the config's; false: no files. Undefined or true:
   * unchanged.
   */
  observe?: unknown;
  /** Replaces these fields of `metadata.queue`; its `after` is added to. */
  queue?: Record<string, unknown> | undefined;
  /** `metadata.code`. */
  code?: unknown;
}

/** Unchanged if the text has no place for the fields: the daemon reports what is wrong with it. */
export function changedConfig(configJson: string, { observe, queue, code }: ChangedFields): string {
  const isObserved = observe !== undefined && observe !== true;
  if (!isObserved && queue === undefined && code === undefined) return configJson;
  const config = readOrNothing(configJson);
  if (!(config instanceof Map)) return configJson;
  const metadata = config.get("metadata") ?? new Map<string, JsonValue>();
  if (!(metadata instanceof Map)) return configJson;
  if (isObserved) {
    metadata.set(
      "observe",
      Array.isArray(observe) ? added(metadata, "observe", observe) : json(observe),
    );
  }
  if (code !== undefined) metadata.set("code", json(code));
  if (queue !== undefined) {
    const known = metadata.get("queue");
    const fields: JsonObject = known instanceof Map ? known : new Map();
    for (const [name, value] of Object.entries(queue)) {
      fields.set(name, name === "after" ? added(fields, name, value as string[]) : json(value));
    }
    metadata.set("queue", fields);
  }
  config.set("metadata", metadata);
  return writeJson(config, { nonFinite: "bare" });
}

function readOrNothing(text: string): JsonValue | undefined {
  try {
    return readJson(text);
  } catch (error) {
    if (error instanceof MosaicError) return undefined;
    throw error;
  }
}

function added(object: JsonObject, name: string, values: readonly string[]): JsonValue[] {
  const known = object.get(name);
  const before = Array.isArray(known) ? known : [];
  return [...before, ...values.filter((value) => !before.includes(value))];
}

function json(value: unknown): JsonValue {
  return readJson(JSON.stringify(value));
}
