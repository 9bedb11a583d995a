/**
 * What a sweep is: a run's config with templates, and the parts of its points. Stored as JSON;
 * src/sweeps/points.ts counts.
 */
import { z } from "zod";
import { messageOf, MosaicError } from "../base/errors.ts";
import { parsedJson } from "../base/text/json_text.ts";
import { LONGEST_RUN_NAME } from "../base/run_name.ts";

/** Trials of a sweep at most. */
export const MOST_TRIALS = 100_000;
/** Characters of a stored sweep, and of a file that describes one. */
export const MOST_SPEC_TEXT = 4 << 20;
/** A trial's run is named after its sweep and its number. */
export const LONGEST_NAME = LONGEST_RUN_NAME - 10;
const MOST_RUNGS = 100;
/** Different names of parameters: the list of sweeps has those of each. */
export const MOST_NAMES = 500;

/** Names that a sweep gives its trials itself. */
export const OWN_NAMES = ["sweep", "trial"];

const name = z.string().regex(
  /^[A-Za-z_][\w.:/-]{0,199}$/,
  "must be a name: letters, digits, and . _ : / -",
)
  .refine((text) => !OWN_NAMES.includes(text), "is a name that every trial has already");
const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
/** What a program gets: a text as it was written, or a JSON value. */
const value = z.union([scalar, z.array(z.unknown()).max(1000), z.record(z.string(), z.unknown())]);
const whole = z.int().min(0);

const axis = z.strictObject({
  name,
  values: z.array(value).min(1).max(MOST_TRIALS).optional(),
  /** Whole numbers: from, to (inclusive), step. */
  ranges: z.array(z.tuple([z.int(), z.int(), z.int().min(1)])).min(1).max(1000).optional(),
}).refine(
  ({ values, ranges }) => (values === undefined) !== (ranges === undefined),
  "needs values or ranges",
);

const distribution = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("uniform"),
    low: z.number(),
    high: z.number(),
    quantum: z.number().optional(),
  }),
  z.strictObject({
    type: z.literal("log"),
    low: z.number().positive(),
    high: z.number(),
    quantum: z.number().optional(),
  }),
  z.strictObject({ type: z.literal("int"), low: z.int(), high: z.int() }),
  z.strictObject({ type: z.literal("choice"), values: z.array(value).min(1).max(10_000) }),
]).refine((d) => d.type === "choice" || d.low <= d.high, "has its bounds in the wrong order");

const origin = z.strictObject({
  /** The trial whose checkpoint it begins with, and the rung at which it takes another's place. */
  trial: whole,
  rung: z.int().min(1),
});

/** A parameter that a trial has only if another has one of these values. */
const condition = z.strictObject({ name, on: name, values: z.array(value).min(1).max(1000) });

const part = z.strictObject({
  /** Every combination of these, the last varying fastest. */
  axes: z.array(axis).max(100),
  rows: z.array(z.record(name, value)).min(1).max(MOST_TRIALS).optional(),
  /** One for each row: trials that go on from others, as population based training makes them. */
  origins: z.array(origin).optional(),
  draws: z.strictObject({
    count: z.int().min(1).max(MOST_TRIALS),
    /** Number of the first draw: an extension continues the sequence. */
    from: whole,
    seed: z.int(),
    space: z.array(z.strictObject({ name, distribution })).min(1).max(1000),
    /** Of parameters of the space; what they depend on is in the space, too. */
    when: z.array(condition).max(1000).optional(),
  }).optional(),
  /** All points are tried with the first, then all with the next. */
  seeds: axis.optional(),
  /**
   * Further seeds of a point of an earlier part, which early stopping leaves alone: who is left
   * would say too much of it.
   */
  unstopped: z.literal(true).optional(),
}).refine(
  ({ origins, rows, axes, draws, seeds }) =>
    origins === undefined ||
    (origins.length === rows?.length && axes.length === 0 && draws === undefined &&
      seeds === undefined),
  "has origins for other trials than its rows",
);

/** What early stopping ranks. */
export const OVER = ["trial", "point", "mean", "median", "iqm"] as const;

const stop = z.strictObject({
  rule: z.enum(["asha", "hyperband", "median", "pbt", "optimizer"]),
  /**
   * What rungs count: `step` of the worker, `points` of the metric, seconds of running `time`, or a
   * metric such as epoch.
   */
  unit: z.string().min(1).max(1000),
  /** First rung. */
  min: z.int().min(1),
  /** No rung lies at or beyond it. */
  max: z.int().min(2),
  /**
   * Each rung lies this many times further than the one before, and one trial in as many goes on.
   */
  reduction: z.number().min(1.1).max(100),
  brackets: z.int().min(1).max(10),
  /**
   * What is ranked: each trial by itself (the default), or points by a value over their seeds;
   * `point` is the mean.
   */
  over: z.enum(OVER).optional(),
  /**
   * So many trials at most wait at their rung, paused, until it is known whether they go on; none
   * if it is not given.
   */
  hold: z.int().min(1).max(1000).optional(),
}).refine(({ min, max }) => min < max, "needs a first rung below its end");

export const SPEC = z.strictObject({
  name: z.string().min(1).max(LONGEST_NAME).regex(
    /^[^\s/@\p{Cc}][^/\p{Cc}]*$/u,
    "must have no slash and no control character, and begin with no blank and no @",
  ),
  /** The config of every trial; {NAME} in its texts is a parameter's value. */
  config: z.record(z.string(), z.unknown()),
  /**
   * How parameters reach the program that no template names: not at all (an error), as
   * --name=value, or as name=value.
   */
  pass: z.enum(["templates", "flags", "hydra"]),
  parts: z.array(part).min(1).max(1000),
  max_parallel: z.int().min(1).max(10_000).optional(),
  budget: z.strictObject({
    /** Of running time, over all trials. */
    seconds: z.number().positive().optional(),
    steps: z.int().min(1).optional(),
    runs: z.int().min(1).optional(),
  }),
  metric: z.strictObject({ name: z.string().min(1).max(1000), goal: z.enum(["max", "min"]) })
    .optional(),
  stop: stop.optional(),
}).refine((spec) => spec.stop === undefined || spec.metric !== undefined, "stop needs a metric");

/** What `extend` adds to a sweep. */
export const EXTENSION = z.strictObject({
  axes: z.array(axis).max(100),
  rows: z.array(z.record(name, value)).min(1).max(MOST_TRIALS).optional(),
  random: z.int().min(1).max(MOST_TRIALS).optional(),
  sample_seed: z.int().optional(),
  space: z.array(z.strictObject({ name, distribution })).max(1000),
  when: z.array(condition).max(1000).optional(),
  seeds: axis.optional(),
  /** The seeds are for the point of this trial only. */
  like: whole.optional(),
  max_parallel: z.int().min(1).max(10_000).optional(),
  budget: SPEC.shape.budget.optional(),
});

/** What words say about points; `partFrom` puts it together. */
export type Pieces = Omit<z.infer<typeof EXTENSION>, "like" | "max_parallel" | "budget">;
export type SweepSpec = z.infer<typeof SPEC>;
export type Part = z.infer<typeof part>;
export type Condition = z.infer<typeof condition>;
export type Origin = z.infer<typeof origin>;
export type Axis = z.infer<typeof axis>;
export type Distribution = z.infer<typeof distribution>;
export type Value = z.infer<typeof value>;
export type StopRule = z.infer<typeof stop>;

/** @throws MosaicError `invalid_argument` that names every field that is wrong */
export function specFrom(json: string): SweepSpec {
  return checked(parsed(json));
}

/** @throws as `specFrom` */
export function extensionFrom(json: string): z.infer<typeof EXTENSION> {
  return fitting(EXTENSION, parsed(json));
}

/** The numbers of the trials that are to be retried. @throws as `specFrom` */
export function retriedFrom(json: string): number[] {
  return fitting(z.strictObject({ trials: z.array(whole).min(1).max(MOST_TRIALS) }), parsed(json))
    .trials;
}

/**
 * The trial that an optimizer ends, and the rung at which it has decided that. @throws as
 * `specFrom`
 */
export function prunedFrom(json: string): { trial: number; rung: number } {
  return fitting(z.strictObject({ trial: whole, rung: z.int().min(1) }), parsed(json));
}

/**
 * What is stored of it. @throws as `specFrom`, which could not read a longer text: "1e20" has 21
 * digits there
 */
export function specText(spec: SweepSpec): string {
  return requireShort(JSON.stringify(spec));
}

function requireShort(json: string): string {
  if (json.length <= MOST_SPEC_TEXT) return json;
  throw new MosaicError("invalid_argument", `the sweep has more than ${MOST_SPEC_TEXT >> 20} MiB`);
}

function parsed(json: string): unknown {
  requireShort(json);
  try {
    return parsedJson(json);
  } catch (error) {
    throw new MosaicError("invalid_argument", `the sweep is no JSON: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function fitting<T>(schema: z.ZodType<T>, given: unknown): T {
  const { success, data, error } = schema.safeParse(given);
  if (success) return data;
  const wrong = error.issues.slice(0, 20).map(({ path, message }) =>
    `${path.join(".") || "the sweep"}: ${message}`
  );
  throw new MosaicError("invalid_argument", wrong.join("; "));
}

/** Rules whose rungs are equally far apart. */
export const EVENLY: readonly StopRule["rule"][] = ["median", "pbt", "optimizer"];

/** @throws as `specFrom` */
export function checked(given: unknown): SweepSpec {
  const data = fitting(SPEC, given);
  if (
    data.stop !== undefined && EVENLY.includes(data.stop.rule) &&
    data.stop.max / data.stop.min > MOST_RUNGS
  ) {
    throw new MosaicError(
      "invalid_argument",
      `stop.min: more than ${MOST_RUNGS} rungs up to ${data.stop.max}`,
    );
  }
  return data;
}
