/** Which of a run's series shows how training goes, where nobody named one. Pure. */

export const EPISODE_REWARD = "episode_reward";

/** From what says most: a return, an evaluation's score, any reward, then what is minimised. The first that fits wins. */
const TELLING: readonly RegExp[] = [
  /^(?:rollout\/ep_rew_mean|charts\/episodic_return)$/,
  /(?:^|[/_.])ep(?:isod(?:e|ic))?_(?:rew(?:ard)?|return)s?(?:_mean)?(?:@|$)/,
  /(?:episode_reward_mean|episode_return_mean|mean_reward|mean_return|return_mean|reward_mean)(?:@|$)/,
  /(?:reward|return)(?!.*(?:std|var|loss))/,
  /(?:accuracy|acc|success_rate|score)(?:@|$)/,
  /^(?:val|eval|test)[/_.]?loss(?:@|$)/,
  /(?:^|[/_.])loss(?:@|$)/,
  /loss/,
];
/** How many of those, from the first on, are rewards whatever the program. */
const REWARDS = 3;
/** They tell how the program runs, not what it learns. */
const OF_THE_MACHINE = /(?:^|[/_.])(?:sps|fps|time|time_elapsed|lr|learning_rate|epoch|iterations?|n_updates)(?:@|$)/i;

/** How surely a metric is the reward of episodes: 0 most; Infinity: it is something else. */
export function rewardRank(name: string): number {
  const rank = TELLING.slice(0, REWARDS).findIndex((pattern) => pattern.test(name.toLowerCase()));
  return rank === -1 ? Infinity : rank;
}

/** @returns undefined where no series has a point */
export function progressSeries(series: readonly { name: string; points: bigint }[]): string | undefined {
  const names = series.filter(({ points }) => points > 0n).map(({ name }) => name);
  if (names.includes(EPISODE_REWARD)) return EPISODE_REWARD;
  for (const pattern of TELLING) {
    const found = names.find((name) => pattern.test(name.toLowerCase()));
    if (found !== undefined) return found;
  }
  return names.find((name) => !OF_THE_MACHINE.test(name)) ?? names[0];
}

/** Recorded steps, or the highest step of a metric: most programs record no steps. */
export function stepsReached({ steps, toldStep }: { steps: number; toldStep: number }): number {
  return Math.max(steps, toldStep);
}
