/** Selects the run's series that shows its progress, if nobody named one. Pure. */

export const EPISODE_REWARD = "episode_reward";

/** By decreasing significance: a return, an evaluation's score, any reward, then losses. The first match wins. */
const PROGRESS_NAMES: readonly RegExp[] = [
  /^(?:rollout\/ep_rew_mean|charts\/episodic_return)$/,
  /(?:^|[/_.])ep(?:isod(?:e|ic))?_(?:rew(?:ard)?|return)s?(?:_mean)?(?:@|$)/,
  /(?:episode_reward_mean|episode_return_mean|mean_reward|mean_return|return_mean|reward_mean|^return)(?:@|$)/,
  /(?:reward|return)(?!.*(?:std|var|loss))/,
  /(?:accuracy|acc|success_rate|score)(?:@|$)/,
  /^(?:val|eval|test)[/_.]?loss(?:@|$)/,
  /(?:^|[/_.])loss(?:@|$)/,
  /loss/,
];
/** The first this many of those are rewards in any program. */
const REWARDS = 3;
/** Metrics of how the program runs, not of what it learns. */
const OF_THE_MACHINE = /(?:^|[/_.])(?:sps|fps|time|time_elapsed|lr|learning_rate|epoch|iterations?|n_updates)(?:@|$)/i;

/** How certainly a metric is the reward of episodes: 0 is the most certain; Infinity: it is not. */
export function rewardRank(name: string): number {
  const rank = PROGRESS_NAMES.slice(0, REWARDS).findIndex((pattern) => pattern.test(name.toLowerCase()));
  return rank === -1 ? Infinity : rank;
}

/** @returns undefined if no series has a point */
export function progressSeries(series: readonly { name: string; points: bigint }[]): string | undefined {
  const names = series.filter(({ points }) => points > 0n).map(({ name }) => name);
  if (names.includes(EPISODE_REWARD)) return EPISODE_REWARD;
  for (const pattern of PROGRESS_NAMES) {
    const found = names.find((name) => pattern.test(name.toLowerCase()));
    if (found !== undefined) return found;
  }
  return names.find((name) => !OF_THE_MACHINE.test(name)) ?? names[0];
}

/** Recorded steps, or the highest step of a metric: most programs record no steps. */
export function stepsReached({ steps, toldStep }: { steps: number; toldStep: number }): number {
  return Math.max(steps, toldStep);
}
