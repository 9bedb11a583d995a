/** `metadata.alerts` and the daemon's --alerts: rules on what a run records. */
import type { AlertFields } from "./schema.ts";

export const ALERT_KINDS = ["nan", "above", "below", "stuck", "silent"] as const;
export const ALERT_ACTIONS = ["tell", "pause", "cancel"] as const;

export interface AlertRule {
  /** Unique among a run's rules. */
  name: string;
  /** Undefined for `silent` rules. */
  metric: string | undefined;
  when: typeof ALERT_KINDS[number];
  /** For `above` and `below`. */
  value: number;
  /** For `above` and `below`: consecutive points; for `stuck`: points without an improvement. */
  points: number;
  /** For `stuck`. */
  goal: "max" | "min";
  /** For `silent`. */
  seconds: number;
  /** `tell`: only the event. */
  then: typeof ALERT_ACTIONS[number];
}

/** A repeated name gets a number. */
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

/** What a rule of its kind lacks or must not have; undefined: nothing. */
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
