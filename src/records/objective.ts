/**
 * The metric by which a person judges runs, as `eval/reward:max`: a series, and which of its values
 * counts. Pure.
 */

/** Fields of a series' summary. */
export const OBJECTIVE_VALUES = ["max", "min", "last", "mean"] as const;

export interface Objective {
  /** Name of the series. */
  name: string;
  value: typeof OBJECTIVE_VALUES[number];
}

/** The chosen metric of one run. */
export interface ObjectiveValue {
  /** As it was chosen, such as `eval/reward:max`. */
  name: string;
  /** null: the run has no such point yet. */
  value: number | null;
}

const LONGEST = 600;
export const OBJECTIVE_FORM = `the name of a metric, or NAME:VALUE with ${
  OBJECTIVE_VALUES.join(", ")
}, such as "eval/reward:max"`;

/**
 * @returns undefined for another text. Without a value, the last one counts. A name with a colon
 * needs one.
 */
export function objectiveOf(text: string): Objective | undefined {
  // deno-lint-ignore no-control-regex -- the name is shown in a terminal.
  if (text === "" || text.length > LONGEST || /[\u0000-\u001f\u007f]/.test(text)) return undefined;
  const at = text.lastIndexOf(":");
  if (at < 0) return { name: text, value: "last" };
  const value = OBJECTIVE_VALUES.find((one) => one === text.slice(at + 1));
  return at === 0 || value === undefined ? undefined : { name: text.slice(0, at), value };
}

/** The daemon's choices for runs that choose none: for all, or for those with a tag. */
export class Objectives {
  readonly #forAll: string | undefined;
  readonly #byTag = new Map<string, string>();

  /** @param texts `METRIC`, or `TAG=METRIC`; the last of a kind counts */
  constructor(texts: readonly string[] = []) {
    for (const text of texts) {
      const { tag, metric } = taggedObjective(text);
      if (tag === undefined) this.#forAll = metric;
      else this.#byTag.set(tag, metric);
    }
  }

  /** @param own what the run chooses */
  of(own: string | undefined, tags: readonly string[]): string | undefined {
    const tag = tags.find((one) => this.#byTag.has(one));
    return own ?? (tag === undefined ? this.#forAll : this.#byTag.get(tag));
  }
}

export function taggedObjective(text: string): { tag: string | undefined; metric: string } {
  const at = text.indexOf("=");
  return at <= 0
    ? { tag: undefined, metric: text }
    : { tag: text.slice(0, at), metric: text.slice(at + 1) };
}

/**
 * `metadata.objective` of a stored config; undefined if it has none. Reads nothing of configs
 * without the word.
 */
export function objectiveIn(configJson: string): string | undefined {
  if (!configJson.includes('"objective"')) return undefined;
  try {
    const chosen: unknown = JSON.parse(configJson)?.metadata?.objective;
    return typeof chosen === "string" && objectiveOf(chosen) !== undefined ? chosen : undefined;
  } catch (error) {
    // A damaged config is reported where it is read as a whole.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * The one number of a run: the chosen metric if one was chosen, even if it has no value yet, so
 * that a list never compares different metrics; else the mean reward of the last 100 episodes, else
 * the metric that is most certainly a reward.
 */
export function oneNumber(
  objective: { value?: number | null | undefined } | null | undefined,
  meanReward: number | null | undefined,
  told: { value: number } | null | undefined,
): number | null {
  return objective != null ? objective.value ?? null : meanReward ?? told?.value ?? null;
}
