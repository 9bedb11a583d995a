/** Converts a config of either form to the flat form. */
import { isUlid } from "./ulid.ts";
import { JsonNumber, type JsonObject, type JsonValue } from "./lossless_json.ts";

/** A config in the flat form, and the original path of each top-level key. */
export interface FlatShape {
  flat: JsonObject;
  /** Path prefix by flat key, for messages; keys without one have not moved. */
  origin: Map<string, string[]>;
  /** Keys of `payload` that do not belong into the flat form. */
  misplaced: string[];
  /** Run id in the nested form, if it is a ULID. */
  runId: string | undefined;
}

const NESTED_KEYS = ["metadata", "payload", "schema_version"];
const NOT_IN_PAYLOAD = ["metadata", "schema_version", "payload"];

/**
 * Converts the documentation's form `{metadata: {run_id, run_name, worker}, payload: {resources}}`;
 * the flat form is unchanged.
 */
export function toFlatShape(root: JsonObject): FlatShape {
  const payload = root.get("payload");
  if (!(payload instanceof Map) || [...root.keys()].some((key) => !NESTED_KEYS.includes(key))) {
    return { flat: root, origin: new Map(), misplaced: [], runId: undefined };
  }
  const flat: JsonObject = new Map();
  const origin = new Map<string, string[]>();
  if (root.has("schema_version")) flat.set("schema_version", root.get("schema_version")!);
  for (const [key, value] of payload) {
    if (NOT_IN_PAYLOAD.includes(key)) continue;
    flat.set(key, value);
    origin.set(key, ["payload", key]);
  }
  const metadata = root.get("metadata");
  if (metadata !== undefined) flat.set("metadata", metadata);
  const about = metadata instanceof Map ? metadata : new Map<string, JsonValue>();
  const runId = about.get("run_id");
  if (!flat.has("run_name")) {
    origin.set("run_name", ["metadata", "run_name"]);
    const name = about.get("run_name") ?? runId;
    if (name !== undefined && name !== null) flat.set("run_name", name);
  }
  fillDefaults(flat, about);
  return {
    flat,
    origin,
    misplaced: [...payload.keys()].filter((key) => NOT_IN_PAYLOAD.includes(key)),
    runId: isUlid(runId) ? runId : undefined,
  };
}

/** Fields that the nested form omits and the canonical form needs. */
function fillDefaults(flat: JsonObject, metadata: JsonObject): void {
  const setDefault = (object: JsonObject, key: string, value: JsonValue) => {
    if (!object.has(key)) object.set(key, value);
  };
  const worker = metadata.get("worker");
  const python = worker instanceof Map ? worker.get("python") : undefined;
  setDefault(flat, "entry_point", typeof python === "string" && python !== "" ? python : "python3");
  setDefault(flat, "environment", new Map());
  setDefault(flat, "artifacts", new Map());
  const given = flat.get("resources") ?? new Map();
  if (!(given instanceof Map)) return;
  const resources: JsonObject = new Map(given);
  setDefault(resources, "cpus", JsonNumber.integer(1));
  setDefault(resources, "memory_mb", JsonNumber.integer(256));
  const gpus: JsonValue = resources.get("gpus") ?? new Map();
  if (gpus instanceof Map) {
    const slots = new Map(gpus);
    setDefault(slots, "requested", JsonNumber.integer(0));
    resources.set("gpus", slots);
  }
  flat.set("resources", resources);
}
