/**
 * What one can publish of a sweep: the estimate with its interval over seeds, how many trials, and
 * what was discarded. Pure.
 */
import { count, duration, number } from "../../base/text/format.ts";
import type { PointJson, SweepJson } from "./sweep_json.ts";

type Detail = NonNullable<SweepJson["detail"]>;

const plural = (n: number, what: string) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const valueText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);

/** `lr=0.1 layers=2` */
export const parametersText = (parameters: Record<string, unknown>) =>
  Object.entries(parameters).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");

function estimate({ mean, low, high, values }: PointJson, of: string): string {
  return low === null
    ? `${number(mean!)} in one trial, without an interval`
    : `mean ${number(mean!)}, 95 % confidence interval ${number(low)} to ${number(high!)} over ${
      plural(values, of)
    }`;
}

/**
 * Sentences in the order in which a reader asks.
 * @param rungs of early stopping, in the first bracket; none without it
 */
export function statement(
  { state, total, made, states, metric, stop, seeds }: SweepJson,
  { winner, points, spent, saved, reported }: Pick<
    Detail,
    "winner" | "points" | "spent" | "saved" | "reported"
  >,
  rungs: readonly number[],
): string {
  const said: string[] = [];
  const of = (...names: string[]) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0);
  const ended = {
    pruned: "stopped early",
    faulted: "failed",
    cancelled: "cancelled",
    refused: "refused",
    deleted: "deleted",
  };
  const live = made - of("terminated", ...Object.keys(ended));
  if (live > 0 || state === "running" || state === "paused") {
    said.push("Preliminary: the sweep has not ended.");
  }
  if (metric === null) said.push("The sweep has no metric, so its points are not ranked.");
  else if (winner === null) {
    const instead = reported.length === 0 ? "" : `; trials report ${reported.join(", ")}`;
    said.push(`No trial has a value of ${metric.name}${instead}.`);
  } else {
    const better = metric.goal === "max" ? "higher" : "lower";
    const each = seeds.length > 0 ? "seed" : "trial";
    const { iqm, second } = winner;
    const middle = iqm === null
      ? ""
      : `; interquartile mean ${number(iqm.middle)}, 95 % bootstrap interval ${
        number(iqm.low)
      } to ${number(iqm.high)}`;
    const which = parametersText(winner.parameters);
    const subject = points.length > 1
      ? `Of ${plural(points.length, "point")}, ${which} has the best ${metric.name}`
      : `The only point${which && ` (${which})`} has this ${metric.name}`;
    said.push(
      `${subject} (last value of a ` +
        `trial, the ${better} the better): ${estimate(winner, each)}${middle}.`,
    );
    if (winner.pruned > 0) {
      said.push(`${count(winner.pruned)} more of its trials were stopped early and are not in it.`);
    }
    if (second !== null) {
      said.push(`Next is ${parametersText(second.parameters)}: ${estimate(second, each)}.`);
    }
  }
  const discarded = Object.entries(ended).filter(([name]) => of(name) > 0).map(([name, text]) =>
    `${count(of(name))} ${text}`
  );
  const begun = made === total
    ? plural(total, "trial")
    : `${count(made)} of ${plural(total, "trial")}`;
  said.push(
    `Of ${begun}, ${count(of("terminated"))} ran to their end; discarded: ${
      discarded.join(", ") || "none"
    }` +
      `${live > 0 ? `; ${count(live)} live` : ""}.`,
  );
  if (stop !== null) {
    const place = (at: number) => stop.unit === "time" ? duration(at * 1000) : count(at);
    const first = place(rungs[0] ?? stop.max);
    const where = rungs.length === 1 ? `at ${first}` : `at ${rungs.length} rungs from ${first}`;
    const of = { step: " steps", points: " points", time: "" }[stop.unit] ?? ` of ${stop.unit}`;
    const rule = stop.rule === "median"
      ? "median"
      : `${stop.rule}, one in ${stop.reduction} goes on`;
    said.push(
      `Early stopping (${rule}) judged trials ${where}, of ${
        place(stop.max)
      }${of}; it saved about ${count(saved.steps)} steps ` +
        `and ${duration(saved.seconds * 1000)}, at each stopped trial's own pace.`,
    );
  }
  said.push(
    `In all ${count(spent.steps)} steps and ${duration(spent.seconds * 1000)} of running time.`,
  );
  if (winner !== null && points.length > 1) {
    said.push(
      "The best of several points is chosen by the values that estimate it, so its estimate is optimistic.",
    );
  }
  return said.join(" ");
}
