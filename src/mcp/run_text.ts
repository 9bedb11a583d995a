/** A run in few words, for a model. Pure. */
import type { Run } from "../gen/mosaic/v1/mosaic_pb.ts";
import { count, number } from "../base/text/format.ts";
import { escapeControl } from "../base/text/terminal_text.ts";

/** `succeeded`, `failed`, `canceled`, or the state of a run that has not ended. */
export function outcomeOf(run: Run): string {
  return run.outcome === "" ? run.state : run.outcome;
}

/** The run's reward, if mosaic knows one: of its last 100 episodes, or the metric that most certainly is it. */
export function rewardOf({ telemetry }: Run): string | undefined {
  if (telemetry?.meanReward100 !== undefined) return `${number(telemetry.meanReward100)} (mean of 100 episodes)`;
  const told = telemetry?.toldReward;
  return told === undefined ? undefined : `${number(told.value)} (${told.name})`;
}

/** One line: id, name, outcome, steps, reward, reason. */
export function runLine(run: Run): string {
  const steps = Math.max(Number(run.telemetry?.steps ?? 0n), Number(run.telemetry?.toldStep ?? 0n));
  return escapeControl([
    run.runId,
    run.name,
    outcomeOf(run),
    ...(steps > 0 ? [`${count(steps)} steps`] : []),
    ...(rewardOf(run) === undefined ? [] : [`reward ${rewardOf(run)}`]),
    ...(run.attempt > 1 ? [`attempt ${run.attempt}`] : []),
    ...(run.reason === "" || run.outcome === "succeeded" ? [] : [run.reason]),
    ...(run.waitingFor === "" ? [] : [`waits for ${run.waitingFor}`]),
  ].join(" | "));
}

/** A value of a parameter or metric; what has none is `-`. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return "-";
  if (typeof value === "number") return number(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return escapeControl(text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`);
}

const LONGEST_VALUE = 120;
