/** What a sweep has used of its budget. */
import { duration } from "../base/text/format.ts";
import type { Registry } from "../registry/registry.ts";
import type { SweepRow } from "../registry/sweeps/sweep_rows.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import { MOST_TRIALS, type SweepSpec } from "./spec.ts";

interface Readers {
  registry: Pick<Registry, "sweeps">;
  records: Pick<TelemetryReader, "summary">;
}

/**
 * The steps that a program printed as steps or, if it prints none, the highest step of its metrics.
 */
export function stepsOf(records: Readers["records"], runId: string): number {
  const { steps, toldStep } = records.summary(runId);
  return Math.max(steps, toldStep);
}

export function spentSteps({ registry, records }: Readers, sweepId: string): number {
  const trials = registry.sweeps.trials(sweepId, 0, MOST_TRIALS);
  return trials.reduce(
    (sum, { runId, state }) => state === null ? sum : sum + stepsOf(records, runId!),
    0,
  );
}

/**
 * Reads what is spent once. @returns of the number of trials made since then: what of the budget is
 * used up, as text; undefined: nothing
 */
export function spentOf(
  readers: Readers,
  row: SweepRow,
  spec: SweepSpec,
): (made: number) => string | undefined {
  const { seconds, steps, runs } = spec.budget;
  const ranMs = seconds === undefined ? 0 : readers.registry.sweeps.runMs(row.sweepId);
  const stepped = steps === undefined ? 0 : spentSteps(readers, row.sweepId);
  return (made) => {
    if (runs !== undefined && row.nextTrial + made >= runs) return `${runs} runs`;
    if (seconds !== undefined && ranMs >= seconds * 1000) {
      return `${duration(seconds * 1000)} of running time`;
    }
    if (steps !== undefined && stepped >= steps) return `${steps} steps`;
    return undefined;
  };
}
