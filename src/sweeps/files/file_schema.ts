/**
 * The fields of a sweep's file, as a schema: `schema/sweep.v1.json` is generated from it.
 * sweep_file.ts gives them their meaning.
 */
import { z } from "zod";
import { LONGEST_NAME, MOST_TRIALS } from "../spec.ts";

const value = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.null(),
  z.array(z.unknown()),
  z.record(z.string(), z.unknown()),
]);
const words = z.union([
  z.string().min(1),
  z.array(z.union([z.string(), z.number(), z.boolean()])).min(1),
]);

export const SWEEP_FILE = z.strictObject({
  name: z.string().min(1).max(LONGEST_NAME).describe(
    "Name of the sweep; default: from the command.",
  ),
  command: words.describe("The program and its arguments; {NAME} is a parameter's value."),
  config: z.union([z.string().min(1), z.record(z.string(), z.unknown())]).describe(
    "Instead of command: the config of a run, or its path. {NAME} in its texts is a parameter's value.",
  ),
  env: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).describe(
    "Variables of the program.",
  ),
  pass: z.enum(["templates", "flags", "hydra"]).describe(
    "How parameters reach the program that no template names: flags appends --NAME=VALUE, hydra NAME=VALUE.",
  ),
  grid: z.record(z.string(), z.union([z.string().min(1), z.array(value).min(1)])).describe(
    "Values of each parameter, as a list, or as a text such as 1..4; every combination is tried.",
  ),
  random: z.int().min(1).max(MOST_TRIALS).describe("Number of random points of space."),
  sample_seed: z.int().describe("Another one gives other random points."),
  space: z.record(z.string(), z.string().min(1)).describe(
    "Distribution of each parameter: log(LOW,HIGH), uniform(LOW,HIGH), int(LOW,HIGH) or choice(A,B).",
  ),
  when: z.record(z.string(), z.record(z.string(), z.union([value, z.array(value).min(1)])))
    .describe(
      "Parameters that a trial has only if others have these values: {momentum: {optimizer: [sgd]}}.",
    ),
  points: z.union([z.string().min(1), z.array(z.record(z.string(), value)).min(1)]).describe(
    "Points one by one, or the path of a CSV or JSON lines file.",
  ),
  seeds: z.union([z.int(), z.string().min(1), z.array(z.int()).min(1)]).describe(
    "Each point is tried with each, as 1..8.",
  ),
  array: z.union([z.int(), z.string().min(1)]).describe(
    "Indices such as 0-99%8: at most 8 at once.",
  ),
  max_parallel: z.int().min(1).max(10_000).describe("Trials at once."),
  budget: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).describe(
    "24h, 5000000steps or 40runs.",
  ),
  metric: z.string().min(1).describe("What is compared, such as eval/mean_reward:max."),
  stop: z.string().min(1).describe("Early stopping, such as asha:max=100000,min=1000."),
}).partial();

export type SweepFileField = keyof typeof SWEEP_FILE.shape;
export const SWEEP_FILE_FIELDS = Object.keys(SWEEP_FILE.shape) as SweepFileField[];

/** The published JSON Schema (draft 2020-12). */
export function publishedSweepSchema(): Record<string, unknown> {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: "sweep.v1.json",
    title: "Sweep",
    description: "A sweep as mosaic sweep FILE takes it, in YAML or JSON.",
    ...z.toJSONSchema(SWEEP_FILE, { io: "input" }),
  };
}
