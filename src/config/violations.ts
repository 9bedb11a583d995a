/** All violations of the schema, each with its path and the expected value. */
import type { z } from "zod";
import { bytesOfText, CONFIG_LIMITS, isLonger } from "../base/field_limits.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { shown } from "./field_kinds.ts";
import { type FlatConfig, flatConfig, SCHEMA_MAJOR } from "./schema.ts";
import { HIDDEN } from "../base/text/secrets.ts";

export interface Violation {
  /**
   * Path in the config as it was sent: `resources.gpus.requested`, `arguments[2]`; `$` is the whole
   * document.
   */
  path: string;
  /** Expected and actual value. */
  message: string;
}

type Path = readonly PropertyKey[];

/** Checks a config in the flat form. `origin` gives the original paths of its top-level keys. */
export function check(
  plain: unknown,
  origin: ReadonlyMap<string, string[]>,
): { config: FlatConfig; violations: [] } | { config: undefined; violations: Violation[] } {
  const version = (plain as Record<string, unknown>).schema_version;
  const major = Number.parseInt(String(version));
  if (/^[0-9]+(\.[0-9]+)?$/.test(String(version)) && major !== SCHEMA_MAJOR) {
    const message = `is ${shown(version)}, and this mosaic reads version ${SCHEMA_MAJOR}; ` +
      (major > SCHEMA_MAJOR
        ? "use a newer mosaic"
        : `write the config for version ${SCHEMA_MAJOR}`);
    return { config: undefined, violations: [{ path: "schema_version", message }] };
  }
  const drafted = DRAFT_FIELDS.filter((name) =>
    Object.hasOwn(plain as Record<string, unknown>, name)
  );
  if (drafted.length > 1 && !Object.hasOwn(plain as Record<string, unknown>, "entry_point")) {
    return { config: undefined, violations: [{ path: "$", message: draftMessage(drafted) }] };
  }
  const result = flatConfig().safeParse(plain);
  const hidden = [...beyondLimits(plain, []), ...hiddenSecrets(plain, [])];
  if (result.success && hidden.length === 0) return { config: result.data, violations: [] };
  const issues = result.error?.issues.flatMap((issue) => flatten(issue, [], plain)) ?? [];
  const violations = [...issues, ...hidden].map(({ path, message }) => ({
    path: pathText(inSenderShape(path, origin)),
    message,
  }));
  return { config: undefined, violations };
}

/**
 * Texts and collections beyond their bound, in every part of a config, also where any keys are
 * allowed.
 */
function* beyondLimits(value: unknown, path: Path): Generator<{ path: Path; message: string }> {
  const named = CONFIG_LIMITS.named[path.join(".")];
  if (typeof value === "string") {
    const most = named ?? CONFIG_LIMITS.text;
    if (isLonger(value, most)) {
      yield { path, message: `has ${bytesOfText(value)} bytes; at most ${most} are taken` };
    }
    return;
  }
  if (value === null || typeof value !== "object") return;
  const entries = Object.entries(value);
  const most = named ?? CONFIG_LIMITS.entries;
  if (entries.length > most) {
    yield { path, message: `has ${entries.length} entries; at most ${most} are taken` };
    return;
  }
  for (const [key, inner] of entries) {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    yield* beyondLimits(key, at.concat("(key)"));
    yield* beyondLimits(inner, at);
  }
}

/**
 * Fields of the `TrainRunConfig` that the original's design drafts. It names an algorithm, and
 * mosaic runs programs.
 */
const DRAFT_FIELDS = [
  "env_id",
  "control_mode",
  "actor_id",
  "overrides",
  "algorithm",
  "hyperparameters",
  "storage_profile",
  "telemetry_sinks",
  "video_capture",
];

function draftMessage(fields: readonly string[]): string {
  return `is a draft TrainRunConfig (${
    fields.join(", ")
  }), which names no program; give run_name, entry_point and ` +
    'arguments, such as "python" and ["train.py"], and put these fields into metadata.worker.config, which the program gets';
}

/** Paths where a config that was copied from a view has dots in place of the secret. */
function* hiddenSecrets(value: unknown, path: Path): Generator<{ path: Path; message: string }> {
  if (typeof value === "string" && value.includes(HIDDEN)) {
    const message =
      `holds ${HIDDEN}, which stands for a secret that was hidden when the config was shown; put the ` +
      "secret itself there (mosaic show RUN --config --reveal has it)";
    yield { path, message };
  }
  if (value === null || typeof value !== "object") return;
  for (const [key, inner] of Object.entries(value)) {
    yield* hiddenSecrets(inner, [...path, Array.isArray(value) ? Number(key) : key]);
  }
}

function flatten(
  issue: z.core.$ZodIssue,
  prefix: Path,
  plain: unknown,
): { path: Path; message: string }[] {
  const path = [...prefix, ...issue.path];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({ path: [...path, key], message: unknownKey(key, path) }));
    case "invalid_key":
      return issue.issues.map((inner) => ({ path, message: `is a key that ${inner.message}` }));
    case "invalid_union": {
      // If the value has the right type for one alternative, that alternative's error says more
      // than the list of all.
      const near = issue.errors.find((errors) =>
        errors.every((inner) => inner.path.length > 0 || inner.code === "unrecognized_keys")
      );
      if (near !== undefined) return near.flatMap((inner) => flatten(inner, path, plain));
      return [{ path, message: issue.message }];
    }
    default:
      return [{ path, message: issue.message }];
  }
}

function unknownKey(key: string, parent: Path): string {
  const known = knownKeys(flatConfig(), parent);
  const guess = didYouMean(key, known).trim();
  if (guess !== "") return `is not known. ${guess}`;
  return `is not known${known.length === 0 ? "" : `; known here: ${known.join(", ")}`}`;
}

/** The keys that the schema allows at a path; empty if it leads through alternatives. */
function knownKeys(schema: z.ZodType, path: Path): string[] {
  let at: unknown = schema;
  for (const key of path) at = shapeOf(at)?.[String(key)];
  return Object.keys(shapeOf(at) ?? {});
}

function shapeOf(schema: unknown): Record<string, unknown> | undefined {
  let at = schema as {
    shape?: Record<string, unknown>;
    unwrap?: () => unknown;
    options?: unknown[];
  } | undefined;
  while (at !== undefined && at.shape === undefined && typeof at.unwrap === "function") {
    at = at.unwrap() as typeof at;
  }
  if (at?.shape === undefined && Array.isArray(at?.options)) {
    return at.options.map(shapeOf).find((s) => s !== undefined);
  }
  return at?.shape;
}

function inSenderShape(path: Path, origin: ReadonlyMap<string, string[]>): Path {
  const place = origin.get(String(path[0]));
  return place === undefined ? path : [...place, ...path.slice(1)];
}

export function pathText(path: Path): string {
  if (path.length === 0) return "$";
  return path.map((key, i) => {
    if (typeof key === "number") return `[${key}]`;
    const name = String(key);
    if (!/^[A-Za-z_][\w-]*$/.test(name)) return `[${JSON.stringify(name)}]`;
    return i === 0 ? name : `.${name}`;
  }).join("");
}
