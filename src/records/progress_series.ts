/** Selects the run's series that shows its progress, if nobody named one. Pure. */

import { objectiveOf } from "./objective.ts";

export const EPISODE_REWARD = "episode_reward";

/** Names that libraries give to the return of their episodes. */
const RETURNS = /^(?:rollout\/ep_rew_mean|charts\/episodic_return)$/;
/** Words of names: rewards of any kind. */
const REWARD = new Set(["reward", "rewards", "rew", "return", "returns", "ret", "score", "scores"]);
/** Rewards of whole episodes. */
const EPISODE = new Set(["ep", "eps", "episode", "episodes", "episodic"]);
const MEAN = new Set([
  "mean",
  "avg",
  "average",
  "total",
  "cumulative",
  "cum",
  "sum",
  "accumulated",
  "undiscounted",
]);
const EVALUATION = new Set([
  "eval",
  "evaluation",
  "evaluator",
  "test",
  "val",
  "validation",
  "train",
  "training",
  "rollout",
]);
/** With one of these words it is a figure about rewards, or no reward of the task. */
const NO_REWARD = new Set([
  ...[
    "std",
    "var",
    "variance",
    "stddev",
    "err",
    "error",
    "ci",
    "loss",
    "losses",
    "scale",
    "scaling",
    "coef",
    "coeff",
  ],
  ...[
    "weight",
    "lr",
    "advantage",
    "advantages",
    "adv",
    "model",
    "predicted",
    "pred",
    "prediction",
    "target",
    "targets",
  ],
  ...[
    "norm",
    "normalizer",
    "clip",
    "clipped",
    "discount",
    "rms",
    "bonus",
    "intrinsic",
    "curiosity",
    "penalty",
    "kl",
  ],
  ...[
    "entropy",
    "critic",
    "value",
    "values",
    "accuracy",
    "accuracies",
    "margin",
    "margins",
    "len",
    "length",
    "lengths",
  ],
  ...[
    "time",
    "count",
    "num",
    "fps",
    "grad",
    "gradient",
    "quantile",
    "percentile",
    "hist",
    "f1",
    "min",
    "max",
    "best",
    "median",
    "shaping",
  ],
  ...["threshold", "baseline", "random", "human", "ratio", "rank"],
]);
/** Words that stand together in a name. */
const TOGETHER: readonly (readonly [RegExp, string])[] = [
  [/eprewmean/g, "ep_rew_mean"],
  [/eplenmean/g, "ep_len_mean"],
  [/(?<![a-z])ep(rew|ret)(?![a-z])/g, "ep_$1"],
];
/** How the name's value was taken, or where: says nothing about what it is. */
const LABEL = /@[^@]*$/;

/** By decreasing significance, for runs without a reward. The first match wins. */
const OTHERS: readonly RegExp[] = [
  /(?:accuracy|acc|success_rate|score)(?:@|$)/,
  /^(?:val|eval|test)[/_.]?loss(?:@|$)/,
  /(?:^|[/_.])loss(?:@|$)/,
  /loss/,
];
/** Metrics of how the program runs, not of what it learns. */
const OF_THE_MACHINE =
  /(?:^|[/_.])(?:sps|fps|time|time_elapsed|lr|learning_rate|epoch|iterations?|n_updates)(?:@|$)/i;

/**
 * How certainly a metric is the reward of episodes: 0 is the most certain; Infinity: it is not. 1:
 * a word for an episode and one for a reward; 2: a mean or a sum of rewards; 3: a reward in the
 * name's last part, or after the word for a phase.
 */
export function rewardRank(name: string): number {
  if (RETURNS.test(name)) return 0;
  const parts = name.replace(LABEL, "").split(/[/\\]/).map(wordsOf).filter((words) =>
    words.length > 0
  );
  const words = parts.flat();
  const has = (of: readonly string[], set: ReadonlySet<string>) => of.some((word) => set.has(word));
  if (!has(words, REWARD) || has(words, NO_REWARD)) return Infinity;
  if (has(words, EPISODE)) return 1;
  if (has(words, MEAN)) return 2;
  const [first, last] = [parts[0]!, parts.at(-1)!];
  const others = (of: readonly string[]) =>
    of.filter((word) => !REWARD.has(word) && !EVALUATION.has(word));
  if (has(last, REWARD) && others(last).length === 0) return 3;
  // rl_games' rewards/step, rewards/iter and rewards/time have the same values over three axes.
  return parts.length === 2 && has(first, REWARD) && others(first).length === 0 &&
      ["step", "iter"].includes(last.join())
    ? 3
    : Infinity;
}

/** `Train_AverageReturn` has the words train, average and return. */
function wordsOf(part: string): string[] {
  const apart = part.replace(/([a-z\d])([A-Z])/g, "$1_$2").toLowerCase();
  return TOGETHER.reduce((text, [pattern, words]) => text.replace(pattern, words), apart)
    .split(/[^a-z\d]+/).filter((word) => word !== "");
}

/**
 * @param chosen objectives of the runs (`eval/reward:max`); the first that is among the series
 * counts
 * @returns undefined if no series has a point
 */
export function progressSeries(
  series: readonly { name: string; points: bigint }[],
  chosen: readonly (string | undefined)[] = [],
): string | undefined {
  const names = series.filter(({ points }) => points > 0n).map(({ name }) => name);
  for (const text of chosen) {
    const wanted = text === undefined ? undefined : objectiveOf(text)?.name;
    if (wanted !== undefined && names.includes(wanted)) return wanted;
  }
  if (names.includes(EPISODE_REWARD)) return EPISODE_REWARD;
  let best: { name: string; rank: number } | undefined;
  for (const name of names) {
    const rank = rewardRank(name);
    if (rank < (best?.rank ?? Infinity)) best = { name, rank };
  }
  if (best !== undefined) return best.name;
  for (const pattern of OTHERS) {
    const found = names.find((name) => pattern.test(name.toLowerCase()));
    if (found !== undefined) return found;
  }
  return names.find((name) => !OF_THE_MACHINE.test(name)) ?? names[0];
}

/** Recorded steps, or the highest step of a metric: most programs record no steps. */
export function stepsReached({ steps, toldStep }: { steps: number; toldStep: number }): number {
  return Math.max(steps, toldStep);
}
