/** `metadata.alerts` and the daemon's --alerts: rules on what a run records. */
import type { AlertFields } from "./schema.ts";

export const ALERT_KINDS = ["nan", "above", "below", "stuck", "silent"] as const;
export const ALERT_ACTIONS = ["tell", "pause", "cancel"] as const;

export interface AlertRule {
  /** Of a run's rules, one has it. */
  name: string;
  /** Of `silent` rules undefined. */
  metric: string | undefined;
  when: typeof ALERT_KINDS[number];
  /** Of `above` and `below`. */
  value: number;
  /** Of `above` and `below`: so many points in a row; of `stuck`: so many without an improvement. */
  points: number;
  /** Of `stuck`. */
  goal: "max" | "min";
  /** Of `silent`. */
  seconds: number;
  /** `tell`: only the event. */
  then: typeof ALERT_ACTIONS[number];
}

/** A name that another rule has gets a number. */
export function alertRules(given: readonly AlertFields[]): AlertRule[] {
  const names = new Set<string>();
  return given.map(({ name, metric, when, value = 0, points, goal = "max", seconds = 0, then = "tell" }) => {
    const bound = when === "above" || when === "below" ? ` ${value}` : "";
    const wanted = name ?? (metric === undefined ? when : `${metric} ${when}${bound}`);
    let unique = wanted;
    for (let n = 2; names.has(unique); n++) unique = `${wanted} (${n})`;
    names.add(unique);
    return { name: unique, metric, when, value, points: points ?? 1, goal, seconds, then };
  });
}

/** What a rule lacks, or has too much, for its kind; undefined: it is whole. */
export function incompleteAlert({ metric, when, value, points, seconds }: AlertFields): string | undefined {
  if (when === "silent") {
    if (seconds === undefined) return "needs seconds: the longest silence";
    return metric === undefined ? undefined : "has a metric, but a silence is of the whole run";
  }
  if (metric === undefined) return "needs a metric";
  if ((when === "above" || when === "below") && value === undefined) return "needs a value: the bound";
  if (when === "stuck" && points === undefined) return "needs points: how many without an improvement";
  return undefined;
}
