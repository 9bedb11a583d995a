/**
 * Options of the demo worker, from flags and from a config file (`--config`, as the daemon writes
 * it).
 */
import { MosaicError } from "../../base/errors.ts";

export interface DemoWorkerOptions {
  episodes: number;
  /** Maximum total steps; 0: no limit. */
  maxSteps: number;
  /** Episodes per generation, each with another policy. */
  population: number;
  /** Fraction of a generation to which the next one is fitted. */
  elite: number;
  seed: number;
  /** Minimum average milliseconds per step, may be fractional; 0: no delay. */
  stepDelayMs: number;
  /** Episodes between two checkpoints; 0: only one at the end. */
  checkpointEvery: number;
  /** Generations between two metrics records; 0: none. */
  metricsEvery: number;
  /** Print steps, too. */
  steps: boolean;
  /** Accept `{"control": …}` lines on standard input. */
  control: boolean;
}

export const DEFAULTS: DemoWorkerOptions = {
  episodes: 300,
  maxSteps: 0,
  population: 20,
  elite: 0.2,
  seed: 1,
  stepDelayMs: 0,
  checkpointEvery: 50,
  metricsEvery: 1,
  steps: true,
  control: false,
};

/** Bounds of each numeric option. */
const BOUNDS: { [K in keyof DemoWorkerOptions]?: { min: number; max: number; integer?: boolean } } =
  {
    episodes: { min: 1, max: 10_000_000, integer: true },
    maxSteps: { min: 0, max: Number.MAX_SAFE_INTEGER, integer: true },
    population: { min: 2, max: 10_000, integer: true },
    elite: { min: 0, max: 1 },
    seed: { min: -(2 ** 31), max: 2 ** 32 - 1, integer: true },
    stepDelayMs: { min: 0, max: 60_000 },
    checkpointEvery: { min: 0, max: 10_000_000, integer: true },
    metricsEvery: { min: 0, max: 10_000_000, integer: true },
  };

/**
 * Flags override the config file, the file overrides the defaults. The file's keys are the options'
 * names in snake_case; other keys are ignored.
 *
 * @throws {MosaicError} `invalid_argument` naming the option, its value and its bounds.
 */
export function demoWorkerOptions(
  flags: Partial<Record<keyof DemoWorkerOptions, unknown>>,
  file: Record<string, unknown> = {},
): DemoWorkerOptions {
  const options: Record<string, unknown> = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS) as (keyof DemoWorkerOptions)[]) {
    const snake = key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
    const given = flags[key] ?? file[snake];
    if (given === undefined) continue;
    const bounds = BOUNDS[key];
    if (bounds === undefined) {
      options[key] = given === true || given === "true";
      continue;
    }
    const value = typeof given === "string" && given.trim() !== "" ? Number(given) : given;
    if (
      typeof value !== "number" || !(value >= bounds.min && value <= bounds.max) ||
      (bounds.integer && !Number.isInteger(value))
    ) {
      const kind = bounds.integer ? "an integer" : "a number";
      const flag = snake.replaceAll("_", "-");
      throw new MosaicError(
        "invalid_argument",
        `--${flag} is ${JSON.stringify(given)}: must be ${kind}`,
        {
          hint: `It must be from ${bounds.min} to ${bounds.max}.`,
        },
      );
    }
    options[key] = value;
  }
  return options as unknown as DemoWorkerOptions;
}
