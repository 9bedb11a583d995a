/** A run in few words, for a model. Pure. */
import type { Run, Sweep } from "../gen/mosaic/v1/mosaic_pb.ts";
import { count, number } from "../base/text/format.ts";
import { stepsReached } from "../records/progress_series.ts";
import { valueText } from "../runs/parameter_text.ts";

/** `succeeded`, `failed`, `canceled`, `pruned`, or the state of a run that has not ended. */
export function outcomeOrState(run: Run): string {
  return run.outcome === "" ? run.state : run.outcome;
}

/**
 * The run's reward, if mosaic knows one: of its last 100 episodes, or the metric that most
 * certainly is it.
 */
export function rewardOf({ telemetry }: Run): string | undefined {
  const chosen = telemetry?.objective;
  if (chosen !== undefined) {
    return chosen.value === undefined ? undefined : `${number(chosen.value)} (${chosen.name})`;
  }
  if (telemetry?.meanReward100 !== undefined) {
    return `${number(telemetry.meanReward100)} (mean of 100 episodes)`;
  }
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

/** What is read of a sweep's JSON; the best and the statement come with a single one. */
interface SweepFacts {
  parameters: string[];
  metric: { name: string; goal: string } | null;
  waiting_for: string | null;
  detail?: {
    statement: string;
    best:
      | { trial: number; run_id: string; value: number; parameters: Record<string, unknown> }
      | null;
  };
}

/** Name, state and trials in a line; then what is compared, and which is the best so far. */
export function sweepLines({ sweepId, name, state, total, made, states, json }: Sweep): string[] {
  const { parameters, metric, waiting_for: waiting, detail } = JSON.parse(json) as SweepFacts;
  const best = detail?.best;
  const counts = Object.entries(states).map(([of, n]) => `${n} ${of}`).join(", ");
  return [
    [sweepId, name, state, `${made} of ${total} trials made${counts === "" ? "" : `: ${counts}`}`]
      .join(" | "),
    `parameters: ${parameters.join(", ")}`,
    ...(metric === null ? [] : [`compared by ${metric.name}, ${metric.goal}`]),
    ...(waiting === null ? [] : [`waits for ${waiting}`]),
    ...(best === null || best === undefined ? [] : [
      `best: trial ${best.trial}, run ${best.run_id}: ${number(best.value)} with ${
        Object.entries(best.parameters).map(([key, value]) => `${key}=${shortText(value)}`).join(
          ", ",
        )
      }`,
    ]),
    ...(detail === undefined || detail.statement === "" ? [] : [detail.statement]),
  ];
}

/** A value of a parameter or metric; what has none is `-`. */
export function shortText(value: unknown): string {
  if (value === undefined || value === null) return "-";
  const text = typeof value === "number" ? number(value) : valueText(value);
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`;
}

const LONGEST_VALUE = 120;
