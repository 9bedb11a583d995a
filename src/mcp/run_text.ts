/** A run in few words, for a model. Pure. */
import type { Run } from "../gen/mosaic/v1/mosaic_pb.ts";
import { count, number } from "../base/text/format.ts";
import { stepsReached } from "../records/progress_series.ts";
import { valueText } from "../runs/parameter_text.ts";

/** `succeeded`, `failed`, `canceled`, or the state of a run that has not ended. */
export function outcomeOrState(run: Run): string {
  return run.outcome === "" ? run.state : run.outcome;
}

/** The run's reward, if mosaic knows one: of its last 100 episodes, or the metric that most certainly is it. */
export function rewardOf({ telemetry }: Run): string | undefined {
  const chosen = telemetry?.objective;
  if (chosen !== undefined) return chosen.value === undefined ? undefined : `${number(chosen.value)} (${chosen.name})`;
  if (telemetry?.meanReward100 !== undefined) return `${number(telemetry.meanReward100)} (mean of 100 episodes)`;
  const told = telemetry?.reportedReward;
  return told === undefined ? undefined : `${number(told.value)} (${told.name})`;
}

/** One line: id, name, outcome, steps, reward, reason. */
export function runLine(run: Run): string {
  const { steps: recorded = 0n, toldStep = 0n } = run.telemetry ?? {};
  const steps = stepsReached({ steps: Number(recorded), toldStep: Number(toldStep) });
  return [
    run.runId,
    run.name,
    outcomeOrState(run),
    ...(steps > 0 ? [`${count(steps)} steps`] : []),
    ...(rewardOf(run) === undefined ? [] : [`reward ${rewardOf(run)}`]),
    ...(run.attempt > 1 ? [`attempt ${run.attempt}`] : []),
    ...(run.reason === "" || run.outcome === "succeeded" ? [] : [run.reason]),
    ...(run.waitingFor === "" ? [] : [`waits for ${run.waitingFor}`]),
  ].join(" | ");
}

/** A value of a parameter or metric; what has none is `-`. */
export function shortText(value: unknown): string {
  if (value === undefined || value === null) return "-";
  const text = typeof value === "number" ? number(value) : valueText(value);
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`;
}

const LONGEST_VALUE = 120;
