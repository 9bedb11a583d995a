/**
 * A sweep file of Weights & Biases as it is: method, parameters, metric, early_terminate, run_cap,
 * program and command.
 */
import { type Described, NOTHING } from "../described.ts";
import {
  commandIn,
  type Fields,
  isObject,
  type Json,
  objectIn,
  type Path,
  refuse,
  textIn,
  wholeIn,
} from "./file_fields.ts";
import { type Axis, type Distribution, OWN_NAMES, type StopRule, type Value } from "../spec.ts";

const FIELDS = [
  ...["method", "parameters", "metric", "early_terminate", "run_cap", "program", "command", "name"],
  // These say where Weights & Biases keeps the sweep.
  ...["project", "entity", "description", "job", "image_uri", "imageuri"],
];
const OF_WANDB = ["project", "entity", "description"];
const METHODS = ["grid", "random"];
/** Macros of a command, and how the parameters after them reach the program. */
const PASSES: Record<string, "flags" | "hydra"> = {
  "${args}": "flags",
  "${args_no_hyphens}": "hydra",
};

export function wandbSweep(fields: Fields, optimized: boolean): Described {
  const { values } = fields;
  fields.requireKnown([], values, FIELDS);
  const at = <T>(field: string, read: (value: unknown) => T): T | undefined =>
    values[field] === undefined ? undefined : fields.at([field], () => read(values[field]));
  const method = fields.at(["method"], () => methodIn(values.method, optimized));
  const cap = at("run_cap", wholeIn);
  const parameters = fields.at(["parameters"], () => objectIn(values.parameters));
  const { axes, space } = parametersIn(fields, ["parameters"], "", parameters, method);
  const { command, pass } = commandOf(fields, values);
  const metric = at("metric", metricIn);
  const stop = at("early_terminate", (value) => stopIn(fields, value));
  const name = at("name", textIn);
  const drawn = space.length > 0 && !optimized;
  const ignored = OF_WANDB.filter((field) => values[field] !== undefined);
  return {
    ...NOTHING,
    ...(name === undefined ? {} : { name }),
    pieces: { axes, space, ...(drawn && cap !== undefined ? { random: cap } : {}) },
    budget: cap === undefined || drawn ? {} : { runs: cap },
    ...(command === undefined ? {} : { command }),
    pass,
    ...(metric === undefined ? {} : { metric }),
    ...(stop === undefined ? {} : { stop }),
    notes: ignored.length === 0 ? [] : [
      `${
        ignored.join(", ")
      } of the file say where Weights & Biases keeps the sweep and are not used`,
    ],
  };
}

/** Its methods say how points are chosen, which is the optimizer's. */
function methodIn(value: unknown, optimized: boolean): string {
  if (optimized) return "random";
  if (METHODS.includes(String(value))) return String(value);
  return refuse(
    `"${value}" needs an optimizer that learns from earlier trials; mosaic itself tries grids and random samples`,
    "Write method: random with run_cap: N, or let Optuna choose: python examples/optuna_sweep.py --name NAME FILE",
  );
}

function parametersIn(fields: Fields, path: Path, prefix: string, of: Json, method: string) {
  const axes: Axis[] = [];
  const space: { name: string; distribution: Distribution }[] = [];
  for (const [key, value] of Object.entries(of)) {
    const here = [...path, key];
    const name = prefix + key;
    const inner = isObject(value) && isObject(value.parameters) ? value.parameters : undefined;
    if (inner !== undefined) {
      const found = parametersIn(fields, [...here, "parameters"], `${name}.`, inner, method);
      axes.push(...found.axes);
      space.push(...found.space);
      continue;
    }
    fields.at(here, () => {
      if (OWN_NAMES.includes(name)) {
        refuse("every trial has a parameter of this name already", "Rename it.");
      }
      const one = objectIn(value);
      if (one.value !== undefined) axes.push({ name, values: [one.value as Value] });
      else if (method === "grid") axes.push({ name, ...gridIn(one) });
      else space.push({ name, distribution: distributionIn(one) });
    });
  }
  return { axes, space };
}

const numberIn = (of: Json, key: string): number =>
  typeof of[key] === "number"
    ? of[key] as number
    : refuse(`needs a number as ${key}, not ${JSON.stringify(of[key])}`);

function valuesIn(of: Json): Value[] {
  if (Array.isArray(of.values) && of.values.length > 0) return of.values as Value[];
  return refuse("needs a list of values");
}

function gridIn(of: Json): Omit<Axis, "name"> {
  if (of.values !== undefined) return { values: valuesIn(of) };
  const [low, high] = [of.min, of.max];
  if (Number.isSafeInteger(low) && Number.isSafeInteger(high) && of.distribution === undefined) {
    return { ranges: [[low as number, high as number, 1]] };
  }
  return refuse("a grid needs values: [ … ]", "Or write method: random.");
}

/** https://docs.wandb.ai/guides/sweeps/sweep-config-keys */
function distributionIn(of: Json): Distribution {
  const { distribution } = of;
  if (distribution === "constant") return { type: "choice", values: [of.value as Value] };
  if (of.values !== undefined) {
    if (of.probabilities !== undefined) {
      refuse("probabilities are not known to mosaic", "Repeat a value to make it more probable.");
    }
    return { type: "choice", values: valuesIn(of) };
  }
  const [low, high] = [numberIn(of, "min"), numberIn(of, "max")];
  if (low > high) refuse(`min ${low} is above max ${high}`);
  const whole = Number.isSafeInteger(low) && Number.isSafeInteger(high);
  switch (distribution ?? (whole ? "int_uniform" : "uniform")) {
    case "int_uniform":
      return { type: "int", low, high };
    case "uniform":
      return { type: "uniform", low, high };
    case "q_uniform":
      return { type: "uniform", low, high, quantum: of.q === undefined ? 1 : numberIn(of, "q") };
    case "log_uniform":
      return { type: "log", low: Math.exp(low), high: Math.exp(high) };
    case "log_uniform_values":
    case "q_log_uniform_values":
      if (low <= 0) refuse("a logarithmic range begins above 0");
      return {
        ...{ type: "log", low, high },
        ...(distribution === "log_uniform_values"
          ? {}
          : { quantum: of.q === undefined ? 1 : numberIn(of, "q") }),
      };
    default:
      return refuse(
        `the distribution "${distribution}" is not known to mosaic`,
        "Known: constant, categorical, int_uniform, uniform, q_uniform, log_uniform, log_uniform_values, q_log_uniform_values.",
      );
  }
}

function metricIn(value: unknown): { name: string; goal: "max" | "min" } {
  const { name, goal = "minimize" } = objectIn(value);
  if (goal !== "minimize" && goal !== "maximize") {
    refuse(`goal is ${JSON.stringify(goal)}; it must be minimize or maximize`);
  }
  return { name: textIn(name), goal: goal === "maximize" ? "max" : "min" };
}

/** Its iterations are points of the metric. */
function stopIn(fields: Fields, value: unknown): StopRule {
  const of = objectIn(value);
  if (of.type !== "hyperband") {
    refuse(`type is ${JSON.stringify(of.type)}; Weights & Biases has hyperband only`);
  }
  fields.requireKnown(["early_terminate"], of, [
    "type",
    "min_iter",
    "max_iter",
    "s",
    "eta",
    "strict",
  ]);
  const eta = of.eta === undefined ? 3 : numberIn(of, "eta");
  const max = of.max_iter === undefined ? undefined : numberIn(of, "max_iter");
  const brackets = of.s === undefined ? 3 : numberIn(of, "s");
  const min = of.min_iter === undefined
    ? max === undefined
      ? refuse("needs min_iter or max_iter")
      : Math.max(1, Math.ceil(max / eta ** brackets))
    : numberIn(of, "min_iter");
  // All trials share the rungs: it is what mosaic calls asha.
  return {
    rule: "asha",
    unit: "points",
    min,
    max: max ?? Math.ceil(min * eta ** 6),
    reduction: eta,
    brackets: 1,
  };
}

function commandOf(fields: Fields, values: Json): { command?: string[]; pass: "flags" | "hydra" } {
  const program = values.program === undefined
    ? undefined
    : fields.at(["program"], () => textIn(values.program));
  if (values.command === undefined) {
    return program === undefined
      ? { pass: "flags" }
      : { command: ["python", program], pass: "flags" };
  }
  return fields.at(["command"], () => {
    let pass: "flags" | "hydra" = "flags";
    const words = commandIn(Array.isArray(values.command) ? values.command : [values.command])
      .flatMap((word) => {
        if (word === "${env}") return ["/usr/bin/env"];
        if (word === "${interpreter}") return ["python"];
        if (word === "${program}") {
          return [program ?? refuse("names ${program}, and the file has no program")];
        }
        if (PASSES[word] !== undefined) {
          pass = PASSES[word];
          return [];
        }
        const macro = /\$\{[a-z_]+\}/.exec(word)?.[0];
        if (macro?.startsWith("${args")) {
          refuse(
            `${macro} is not known to mosaic`,
            "Write ${args} for --name=value, ${args_no_hyphens} for name=value, or {NAME} where a value belongs.",
          );
        }
        return [word];
      });
    return { command: words, pass };
  });
}
