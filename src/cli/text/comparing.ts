/** Differences between runs: totals and configs. */
import type { ComparisonRow } from "../../config/differences.ts";
import { count, duration, number, rate } from "../../base/text/format.ts";
import type { RunDetailJson } from "../../runs/fields/run_types.ts";
import { elapsedMs, rewardOf, stepsOf, workedMs } from "../../runs/fields/run_texts.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

/** State, counts, times and rates of each run. */
export function summaryRows(runs: readonly RunDetailJson[], now: number): ComparisonRow[] {
  const row = (name: string, value: (run: RunDetailJson) => string): ComparisonRow => ({
    name,
    values: runs.map(value),
  });
  const elapsed = (run: RunDetailJson) => elapsedMs(run, now);
  return [
    row("state", (r) => stateWord(r.state)),
    row("attempt", (r) => String(r.attempt)),
    row("elapsed", (r) => elapsed(r) === null ? "-" : duration(elapsed(r)!)),
    row("episodes", (r) => count(r.telemetry.episodes)),
    row("steps", (r) => count(stepsOf(r))),
    row(
      "mean rate",
      (r) => workedMs(r, now) > 0 ? rate(stepsOf(r) / (workedMs(r, now) / 1000)) : "-",
    ),
    row("mean reward", (r) => rewardOf(r) === null ? "-" : number(rewardOf(r)!)),
  ];
}

interface GroupFigure {
  /** For JSON. */
  name: string;
  of(run: RunDetailJson): number | null;
  /** For people: the label of `summaryRows`. */
  label: string;
  text(value: number): string;
}

/** Those of the summary's rows that have a mean over runs. */
export function groupFigures(now: number): GroupFigure[] {
  const perSecond = (r: RunDetailJson) =>
    workedMs(r, now) > 0 ? stepsOf(r) / (workedMs(r, now) / 1000) : null;
  return [
    { name: "episodes", of: (r) => r.telemetry.episodes, label: "episodes", text: count },
    { name: "steps", of: stepsOf, label: "steps", text: count },
    {
      name: "seconds",
      of: (r) => workedMs(r, now) / 1000,
      label: "elapsed",
      text: (s) => duration(s * 1000),
    },
    { name: "steps/s", of: perSecond, label: "mean rate", text: rate },
    { name: "mean reward", of: rewardOf, label: "mean reward", text: number },
  ];
}
