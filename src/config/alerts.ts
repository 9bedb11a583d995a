/** `metadata.alerts` and the daemon's --alerts: rules on what a run records. */
import * as z from "zod";
import { closed, filledText, integer, list, once, oneOf, quantity } from "./field_kinds.ts";

export const ALERT_KINDS = [
  "nan",
  "above",
  "below",
  "stuck",
  "silent",
  "gpu_idle",
  "gpu_memory",
] as const;
export const ALERT_ACTIONS = ["tell", "pause", "cancel"] as const;

export interface AlertRule {
  /** Unique among a run's rules. */
  name: string;
  /** Undefined for `silent`, `gpu_idle` and `gpu_memory` rules. */
  metric: string | undefined;
  when: typeof ALERT_KINDS[number];
  /** For `above` and `below`; for `gpu_idle` and `gpu_memory`, percent. */
  value: number;
  /** For `above` and `below`: consecutive points; for `stuck`: points without an improvement. */
  points: number;
  /** For `stuck`. */
  goal: "max" | "min";
  /** For `silent` and `gpu_idle`. */
  seconds: number;
  /** `tell`: only the event. */
  then: typeof ALERT_ACTIONS[number];
}

/** Mean utilisation below which a GPU is idle, if the rule does not say. */
const IDLE_PERCENT = 5;
/** Memory in use above which a GPU is full. */
const FULL_PERCENT = 95;

const alertShape = once(() =>
  closed({
    name: filledText(200).optional().describe("Name of the alert; default: metric and kind."),
    when: oneOf(ALERT_KINDS),
    metric: filledText(250).optional().describe(
      "A metric, or reward, episode_reward, episode_length.",
    ),
    value: z.number({ error: "must be a number" }).optional().describe(
      "The bound of above and below; of gpu_idle, percent (default 5); of gpu_memory, percent (default 95) of the cards' memory, or of what the run has declared of them.",
    ),
    points: integer(1).optional().describe(
      "above, below: so many points in a row (default 1); stuck: so many points without an improvement.",
    ),
    goal: oneOf(["max", "min"]).optional().describe(
      "Which values are an improvement, for stuck; default max.",
    ),
    seconds: quantity("seconds", { above: 0 }).optional().describe(
      "silent: seconds without output of the worker; gpu_idle: seconds over which the mean is taken.",
    ),
    then: oneOf(ALERT_ACTIONS).optional().describe(
      "Action in addition to the event; default tell: none.",
    ),
  })
);
export type AlertFields = z.infer<ReturnType<typeof alertShape>>;
export const alerts = once(() =>
  list(
    alertShape().superRefine((rule, context) => {
      const wrong = incompleteAlert(rule);
      if (wrong !== undefined) {
        context.addIssue({ code: "custom", message: `${wrong} (when is "${rule.when}")` });
      }
    }),
    "alert rules",
  )
);

/**
 * A run that takes more of a card than it has declared is an event, unless its own rules say what
 * it is.
 */
export function withShareRule(
  given: readonly AlertFields[],
  isShared: boolean,
): readonly AlertFields[] {
  return !isShared || given.some(({ when }) => when === "gpu_memory")
    ? given
    : [...given, { name: "gpu_memory", when: "gpu_memory", value: 100 }];
}

/** A repeated name gets a number. */
export function alertRules(given: readonly AlertFields[]): AlertRule[] {
  const names = new Set<string>();
  return given.map(
    (
      {
        name,
        metric,
        when,
        value = when === "gpu_idle" ? IDLE_PERCENT : when === "gpu_memory" ? FULL_PERCENT : 0,
        points,
        goal = "max",
        seconds = 0,
        then = "tell",
      },
    ) => {
      const bound = when === "above" || when === "below" ? ` ${value}` : "";
      const wanted = name ?? (metric === undefined ? when : `${metric} ${when}${bound}`);
      let unique = wanted;
      for (let n = 2; names.has(unique); n++) unique = `${wanted} (${n})`;
      names.add(unique);
      return { name: unique, metric, when, value, points: points ?? 1, goal, seconds, then };
    },
  );
}

/** What a rule of its kind lacks or must not have; undefined: nothing. */
export function incompleteAlert(
  { metric, when, value, points, seconds }: AlertFields,
): string | undefined {
  if (when === "silent") {
    if (seconds === undefined) return "needs seconds: the longest silence";
    return metric === undefined ? undefined : "has a metric, but a silence is of the whole run";
  }
  if (when === "gpu_idle") {
    if (seconds === undefined) return "needs seconds: over which the mean utilisation is taken";
    if (value !== undefined && (value <= 0 || value > 100)) {
      return "needs a value above 0 and up to 100: percent";
    }
    return metric === undefined ? undefined : "has a metric, but a GPU's utilisation is meant";
  }
  if (when === "gpu_memory") {
    if (value !== undefined && value <= 0) return "needs a value above 0: percent";
    return metric === undefined ? undefined : "has a metric, but a GPU's memory is meant";
  }
  if (metric === undefined) return "needs a metric";
  if ((when === "above" || when === "below") && value === undefined) {
    return "needs a value: the bound";
  }
  if (when === "stuck" && points === undefined) {
    return "needs points: how many without an improvement";
  }
  return undefined;
}
