/** Selects a record's x axis and time among its fields, by the names that trackers use. */

/** The first existing one counts. Names that a library counts by itself come before common ones. */
export const STEP_NAMES: readonly string[] = [
  "global_step",
  "step",
  "_step",
  "total_timesteps",
  "time/total_timesteps",
  "timesteps_total",
  "num_env_steps_sampled_lifetime",
  "total_steps",
  "timesteps",
  "training_iteration",
  "iteration",
  "iter",
  "update",
  "epoch",
];

/** Numbers that say nothing about the training. */
export const NO_SERIES: ReadonlySet<string> = new Set(["pid"]);

const TIME_NAMES = ["_timestamp", "timestamp", "wall_time"];

/**
 * Unix seconds of 2001 and 2286: only values between them count as a time, because other fields use
 * the same names.
 */
const TIMES = [1e9, 1e10] as const;

export function stepName(names: Iterable<string>): string | undefined {
  const all = names instanceof Set ? names : new Set(names);
  return STEP_NAMES.find((name) => all.has(name));
}

/** A step: an integer, 0 or more. */
export function stepOf(value: number | undefined): number | undefined {
  return value !== undefined && Number.isInteger(value) && value >= 0 ? value : undefined;
}

/**
 * The step that a field says, for a record that is left out if it is none (`placeable`); undefined:
 * the field says nothing. A part of an epoch is a value, not a false step.
 */
export function saidStep(name: string, value: number | undefined): number | undefined {
  if (name === "epoch") return stepOf(value);
  return value === undefined || Number.isInteger(value) ? value : NaN;
}

export function timeName(names: Iterable<string>): string | undefined {
  const all = names instanceof Set ? names : new Set(names);
  return TIME_NAMES.find((name) => all.has(name));
}

export function timeOf(value: number | undefined): number | undefined {
  return value !== undefined && value > TIMES[0] && value < TIMES[1] ? value : undefined;
}
