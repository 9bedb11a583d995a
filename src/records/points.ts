/** Selects the numbers of a worker's record that become points of metric series. */
import { namedNonFinite } from "../base/text/json_text.ts";

/** The same as MLflow's. */
export const MAX_NAME_LENGTH = 250;
/** Points per step; senders of events respect it, too. */
export const MAX_POINTS_PER_RECORD = 64;
/** Points per event or episode. */
export const MAX_POINTS_PER_EVENT = 2048;

/**
 * Names that locate a record and say nothing about the training; and those of the series that every
 * run has.
 */
const NO_METRIC = new Set([
  ...[
    "episode",
    "episode_index",
    "episode_number",
    "step",
    "step_index",
    "time_step",
    "global_step",
    "seed",
  ],
  ...[
    "episode_seed",
    "timestamp",
    "ts",
    "ts_unix_ns",
    "time",
    "pid",
    "start_time",
    "end_time",
    "payload_version",
  ],
  ...["reward", "episode_reward", "episode_length"],
]);
const STEP_NAMES = [
  "global_step",
  "total_timesteps",
  "timesteps",
  "num_timesteps",
  "step",
  "iteration",
];

/** Whether a field of this name can be a metric. */
export function isMetricName(name: string): boolean {
  return !NO_METRIC.has(name);
}

const NAMED: ReadonlyMap<unknown, number> = new Map([["NaN", NaN], ["Infinity", Infinity], [
  "-Infinity",
  -Infinity,
]]);

/**
 * A field's number; NaN and infinities, which JSON cannot express, may be written as their names.
 */
export function numberOf(field: unknown): number | undefined {
  return typeof field === "number" ? field : NAMED.get(field);
}

/**
 * The numeric fields of a JSON object, those of nested objects as "outer.inner", up to a maximum.
 * NaN and infinities are points, as bare words and as texts of exactly these names.
 */
export function pointsOf(
  json: string,
  most = MAX_POINTS_PER_RECORD,
): { points: [name: string, value: number][]; leftOut: number; step: number | undefined } {
  const points: [string, number][] = [];
  const object = json.length < 5 ? undefined : namedNonFinite(json);
  if (object === undefined) return { points, leftOut: 0, step: undefined };
  collect(object, "", points);
  let step: number | undefined;
  for (const name of STEP_NAMES) {
    const value = object[name];
    if (Number.isSafeInteger(value) && (value as number) >= 0) {
      step = value as number;
      break;
    }
  }
  return { points: points.slice(0, most), leftOut: Math.max(0, points.length - most), step };
}

function collect(
  object: Record<string, unknown>,
  prefix: string,
  points: [string, number][],
): void {
  for (const key in object) {
    const inner = object[key];
    const value = numberOf(inner);
    if (value !== undefined) {
      const name = prefix + key;
      if (name.length > 0 && name.length <= MAX_NAME_LENGTH && isMetricName(name)) {
        points.push([name, value === 0 ? 0 : value]);
      }
    } else if (
      prefix === "" && typeof inner === "object" && inner !== null && !Array.isArray(inner)
    ) {
      collect(inner as Record<string, unknown>, key + ".", points);
    }
  }
}

/** Milliseconds of a time in nanoseconds, rounded down. */
export function msOf(tsNs: string): number {
  return tsNs.length <= 6 ? 0 : Number(tsNs.slice(0, -6));
}
