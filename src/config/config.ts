/**
 * Reads a submitted config: validates it, converts it to the canonical form and computes its
 * digest.
 */
import { sha256 } from "../base/node_modules.ts";
import { MosaicError } from "../base/errors.ts";
import {
  JsonNumber,
  type JsonObject,
  type JsonValue,
  readJson,
  toPlain,
  writeJson,
} from "./lossless_json.ts";
import type { FlatConfig } from "./schema.ts";
import { toFlatShape } from "./flat_shape.ts";
import { isUlid } from "./ulid.ts";
import { check, type Violation } from "./violations.ts";

export type { Violation } from "./violations.ts";

export interface ReadConfig {
  /** The checked config as plain values, in the flat form. */
  config: FlatConfig;
  /** The canonical form with numbers and key order as sent; `prepareRun` injects into it. */
  canonical: JsonObject;
  /** The text whose hash is the digest. */
  canonicalJson: string;
  /** Lower-case hex SHA-256 of `canonicalJson` in UTF-8. */
  digest: string;
  /** The ULID that the config requests as run id. */
  requestedRunId?: string;
}

/**
 * Reads a config in either form. @throws {MosaicError} `invalid_argument` naming every violation,
 * joined by "; "
 */
export function readConfig(text: string): ReadConfig {
  const result = examine(text);
  if (result.read !== undefined) return result.read;
  const all = result.violations.map(({ path, message }) => `${path} ${message}`).join("; ");
  throw new MosaicError("invalid_argument", all, {
    hint: "Check a config without submitting it with: mosaic submit --check FILE",
  });
}

/**
 * Every violation of a config; empty when it can be submitted. Text that is not JSON is one
 * violation of the whole.
 */
export function violationsOf(text: string): Violation[] {
  try {
    return examine(text).violations;
  } catch (error) {
    if (error instanceof MosaicError) return [{ path: "$", message: error.message }];
    throw error;
  }
}

type Examined = { read: ReadConfig; violations: [] } | { read: undefined; violations: Violation[] };

function examine(text: string): Examined {
  const root = readJson(text);
  if (!(root instanceof Map)) {
    return {
      read: undefined,
      violations: [{ path: "$", message: "must be a JSON object: the config itself" }],
    };
  }
  const { flat, origin, misplaced, runId } = toFlatShape(root);
  const { config, violations } = check(toPlain(flat), origin);
  const misplacedKeys = misplaced.map((key) => ({
    path: `payload.${key}`,
    message: `is not known; put ${key} beside payload`,
  }));
  if (config === undefined || misplacedKeys.length > 0) {
    return { read: undefined, violations: [...violations, ...misplacedKeys] };
  }
  const canonical = canonicalForm(config, flat);
  const canonicalJson = writeJson(canonical);
  const digest = sha256().update(canonicalJson, "utf8").digest("hex");
  const inner = config.metadata?.worker?.config?.run_id;
  const requestedRunId = isUlid(inner) ? inner : runId;
  return {
    read: {
      config,
      canonical,
      canonicalJson,
      digest,
      ...(requestedRunId === undefined ? {} : { requestedRunId }),
    },
    violations: [],
  };
}

function limit(name: string, value: number | undefined): [string, JsonValue][] {
  return value === undefined ? [] : [[name, JsonNumber.integer(value)]];
}

/** As it was sent. */
function shareOf(sent: JsonObject): [string, JsonValue][] {
  const resources = sent.get("resources");
  const gpus = resources instanceof Map ? resources.get("gpus") : undefined;
  const share = gpus instanceof Map ? gpus.get("share") : undefined;
  return share === undefined ? [] : [["share", share]];
}

/** Fixed keys in fixed order with their defaults; `environment` and `metadata` exactly as sent. */
function canonicalForm(config: FlatConfig, sent: JsonObject): JsonObject {
  const { resources, artifacts, schedule } = config;
  const form: JsonObject = new Map<string, JsonValue>([
    ["run_name", config.run_name],
    ["entry_point", config.entry_point],
    ["arguments", config.arguments ?? []],
    ["environment", sent.get("environment")!],
    [
      "resources",
      new Map<string, JsonValue>([
        ...limit("cpus", resources.cpus),
        ...limit("memory_mb", resources.memory_mb),
        [
          "gpus",
          new Map<string, JsonValue>([
            ["requested", JsonNumber.integer(resources.gpus.requested)],
            ["mandatory", resources.gpus.mandatory ?? false],
            ...limit("memory_mb", resources.gpus.memory_mb),
            ...shareOf(sent),
          ]),
        ],
      ]),
    ],
    [
      "artifacts",
      new Map<string, JsonValue>([
        ["output_prefix", artifacts.output_prefix ?? null],
        ["persist_logs", artifacts.persist_logs ?? true],
        ["keep_checkpoints", artifacts.keep_checkpoints ?? true],
        ...limit("keep_videos", artifacts.keep_videos),
      ]),
    ],
    ["metadata", sent.get("metadata") ?? new Map()],
  ]);
  if (schedule !== undefined) {
    const limits: JsonObject = new Map();
    for (const key of ["max_duration_seconds", "max_steps"] as const) {
      if (schedule[key] !== undefined) limits.set(key, JsonNumber.integer(schedule[key]));
    }
    const stall = (sent.get("schedule") as JsonObject).get("stall_timeout_seconds");
    if (stall !== undefined) limits.set("stall_timeout_seconds", stall);
    form.set("schedule", limits);
  }
  return form;
}
