/**
 * Options that describe points of a sweep: those of `mosaic sweep` and of `mosaic sweep extend`.
 */
import { type Command, InvalidArgumentError } from "commander";
import { messageOf } from "../../base/errors.ts";
import { isStandardInput } from "../link/standard_streams.ts";
import { repeated, wholeNumber } from "./flags.ts";

export function describedOptions(command: Command): Command {
  return command
    .option(
      "--grid <name=values>",
      "values of a parameter, such as lr=1e-3,3e-4 or layers=1..4 (repeatable)",
      repeated,
    )
    .option(
      "--seeds <numbers>",
      "seeds, such as 1..8: each point is tried with each",
      (text: string) => text,
    )
    .option("--random <n>", "number of random points", wholeNumber(1))
    .option(
      "--space <name=distribution>",
      "of a random parameter: log(LOW,HIGH), uniform(…), int(…), choice(A,B) (repeatable)",
      repeated,
    )
    .option(
      "--when <condition>",
      "who has a parameter: 'momentum if optimizer=sgd' (repeatable)",
      repeated,
    )
    .option("--sample-seed <n>", "seed of the random points (default: 0)", wholeNumber())
    .option("--points <file>", "points from a CSV file or JSON lines")
    .option("--max-parallel <n>", "trials at once (default: the host's CPUs)", wholeNumber(1))
    .option(
      "--budget <amount>",
      "make no further trials after 24h of running time, 5000000steps or 40runs (repeatable)",
      repeated,
    );
}

/** What the options say. @throws InvalidArgumentError that names the option */
export async function describedBy(
  flags: Record<string, unknown>,
  readInput: () => Promise<string>,
): Promise<import("../../sweeps/described.ts").Described> {
  const { budgetOf, conditionOf, gridAxis, rowsOf, spaceOf, wholeAxis } = await import(
    "../../sweeps/words.ts"
  );
  const list = (name: string) => (flags[name] ?? []) as string[];
  const text = (name: string) => flags[name] as string | undefined;
  const number = (name: string) => flags[name] as number | undefined;
  const points = text("points");
  const rows = points === undefined
    ? undefined
    : rowsOf(isStandardInput(points) ? await readInput() : await Deno.readTextFile(points), points);
  const seeds = text("seeds");
  const [random, sampleSeed, maxParallel] = [
    number("random"),
    number("sampleSeed"),
    number("maxParallel"),
  ];
  return {
    pieces: {
      axes: list("grid").map((one) => naming("--grid", () => gridAxis(one))),
      space: list("space").map((one) => naming("--space", () => spaceOf(one))),
      ...(list("when").length === 0
        ? {}
        : { when: list("when").map((one) => naming("--when", () => conditionOf(one))) }),
      ...(rows === undefined ? {} : { rows }),
      ...(random === undefined ? {} : { random }),
      ...(sampleSeed === undefined ? {} : { sample_seed: sampleSeed }),
      ...(seeds === undefined ? {} : { seeds: naming("--seeds", () => wholeAxis("seed", seeds)) }),
    },
    budget: naming("--budget", () => budgetOf(list("budget"))),
    ...(maxParallel === undefined ? {} : { max_parallel: maxParallel }),
    notes: [],
  };
}

/** @throws MosaicError as `read` does, with the option before it */
export function naming<T>(option: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidArgumentError || !(error instanceof Error)) throw error;
    error.message = `${option}: ${messageOf(error)}`;
    throw error;
  }
}
