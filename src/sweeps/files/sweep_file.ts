/**
 * A sweep as a file in YAML or JSON: mosaic's own words, or a sweep of Weights & Biases. Errors
 * name file, line and field.
 */
import { type Described, NOTHING, together } from "../described.ts";
import {
  commandIn,
  Fields,
  isObject,
  type Json,
  objectIn,
  refuse,
  textIn,
  wholeIn,
  yamlOf,
} from "./file_fields.ts";
import type { Value } from "../spec.ts";
import { SWEEP_FILE, SWEEP_FILE_FIELDS, type SweepFileField } from "./file_schema.ts";
import { wandbSweep } from "./wandb_sweep.ts";
import {
  arrayWords,
  budgetOf,
  distributionOf,
  gridAxis,
  metricOf,
  rowsOf,
  stopOf,
  wholeAxis,
} from "../words.ts";

/**
 * @param readFile reads a file that a field names, relative to the sweep's
 * @param optimized an optimizer chooses the points
 */
export function sweepFile(
  text: string,
  file: string,
  readFile: (path: string) => string,
  optimized = false,
): Described {
  const fields = new Fields(text, file);
  const { values } = fields;
  if (isObject(values.parameters) || typeof values.method === "string") {
    return wandbSweep(fields, optimized);
  }
  fields.requireKnown([], values, SWEEP_FILE_FIELDS);
  const read: Record<SweepFileField, (value: unknown) => Partial<Described>> = {
    name: (value) => ({ name: textIn(value) }),
    command: (value) => ({ command: commandIn(value) }),
    config: (value) => ({ config: configIn(value, readFile) }),
    env: (value) => ({
      environment: Object.fromEntries(
        Object.entries(objectIn(value)).map(([name, one]) => [name, String(one)]),
      ),
    }),
    pass: (value) => ({ pass: passIn(value) }),
    grid: (value) => ({
      pieces: {
        space: [],
        axes: Object.entries(objectIn(value)).map(([name, one]) =>
          fields.at(["grid", name], () => axisIn(name, one))
        ),
      },
    }),
    random: (value) => ({ pieces: { axes: [], space: [], random: wholeIn(value) } }),
    sample_seed: (value) => ({ pieces: { axes: [], space: [], sample_seed: wholeIn(value) } }),
    space: (value) => ({
      pieces: {
        axes: [],
        space: Object.entries(objectIn(value)).map(([name, one]) =>
          fields.at(
            ["space", name],
            () => ({ name, distribution: distributionOf(textIn(one), name) }),
          )
        ),
      },
    }),
    when: (value) => ({
      pieces: {
        axes: [],
        space: [],
        when: Object.entries(objectIn(value)).flatMap(([name, one]) =>
          fields.at(
            ["when", name],
            () =>
              Object.entries(objectIn(one)).map(([on, values]) => ({
                name,
                on,
                values: [values].flat() as Value[],
              })),
          )
        ),
      },
    }),
    points: (value) => ({ pieces: { axes: [], space: [], rows: pointsIn(value, readFile) } }),
    seeds: (value) => ({ pieces: { axes: [], space: [], seeds: seedsIn(value) } }),
    array: (value) => {
      const { axis, parallel } = arrayWords(String(value));
      return {
        pieces: { axes: [axis], space: [] },
        ...(parallel === undefined ? {} : { max_parallel: parallel }),
      };
    },
    max_parallel: (value) => ({ max_parallel: wholeIn(value) }),
    budget: (value) => ({ budget: budgetOf([value].flat().map(String)) }),
    metric: (value) => ({ metric: metricOf(textIn(value)) }),
    stop: (value) => {
      // How long a trial is may be said elsewhere; what is wrong with the words is said here, with
      // their line.
      stopOf(textIn(value), { steps: Number.MAX_SAFE_INTEGER, seconds: Number.MAX_SAFE_INTEGER });
      return { stop: textIn(value) };
    },
  };
  return Object.entries(values).reduce(
    (all, [field, value]) =>
      together(all, {
        ...NOTHING,
        ...fields.at([field], () => fitting(field as SweepFileField, value, read)),
      }),
    NOTHING,
  );
}

/** Its meaning, if its bounds hold, too. */
function fitting<T>(
  field: SweepFileField,
  value: unknown,
  read: Record<SweepFileField, (value: unknown) => T>,
): T {
  const meant = read[field](value);
  const { error } = SWEEP_FILE.shape[field].safeParse(value);
  if (error === undefined) return meant;
  const { path, message } = error.issues[0]!;
  return refuse(`${[...path, message].join(": ")}, not ${JSON.stringify(value)}`);
}

function configIn(value: unknown, readFile: (path: string) => string): Json {
  if (isObject(value)) return value;
  const path = textIn(value);
  const { value: config } = yamlOf(readFile(path), path);
  return isObject(config) ? config : refuse(`${path} is no config`);
}

function passIn(value: unknown): "templates" | "flags" | "hydra" {
  return value === "templates" || value === "flags" || value === "hydra"
    ? value
    : refuse("must be templates, flags or hydra");
}

function axisIn(name: string, value: unknown) {
  if (typeof value === "string") return gridAxis(`${name}=${value}`);
  if (!Array.isArray(value) || value.length === 0) {
    return refuse("must be a list of values, or a text such as 1..4");
  }
  return { name, values: value as Value[] };
}

function seedsIn(value: unknown) {
  if (!Array.isArray(value)) return wholeAxis("seed", String(value));
  return { name: "seed", values: value.map(wholeIn) };
}

function pointsIn(value: unknown, readFile: (path: string) => string): Record<string, Value>[] {
  if (typeof value === "string") return rowsOf(readFile(value), value);
  if (Array.isArray(value) && value.length > 0 && value.every(isObject)) {
    return value as Record<string, Value>[];
  }
  return refuse("must be the path of a CSV or JSON lines file, or a list of points");
}
