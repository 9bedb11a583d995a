/**
 * Selects the videos of episodes that `artifacts.keep_videos` keeps: of the best, the worst and the
 * last.
 */
import { yieldToOthers } from "../../base/time/sleep.ts";
import type { StoredEpisode } from "../../gen/records/record_types.ts";
import type { FoundFile } from "./run_directory.ts";

/**
 * The episode in names like Gymnasium's `rl-video-episode-12.mp4`; undefined if the name has none.
 */
function episodeInName(path: string): number | undefined {
  const digits = /(?<![a-z])ep(?:isode)?[-_=]?(\d{1,15})\.(?:mp4|webm|gif)$/i.exec(path)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The videos to remove. A video stays if its name contains no episode, or the episode's return is
 * unknown.
 * @param keep number of the best, of the worst and of the last episodes
 */
export function videosNotKept(
  videos: readonly FoundFile[],
  keep: number,
  returnOf: (episode: number) => number | undefined,
): FoundFile[] {
  const known = videos.flatMap((file) => {
    const episode = episodeInName(file.path);
    const value = episode === undefined ? undefined : returnOf(episode);
    return value === undefined ? [] : [{ file, episode: episode!, value }];
  });
  const byReturn = known.toSorted((a, b) => a.value - b.value || a.episode - b.episode);
  const byEpisode = known.toSorted((a, b) => a.episode - b.episode);
  const kept = new Set([
    ...byReturn.slice(0, keep),
    ...byReturn.slice(-keep),
    ...byEpisode.slice(-keep),
  ]);
  return known.filter((one) => !kept.has(one)).map(({ file }) => file);
}

/** The returns of a run's episodes; each scan continues where the last one ended. */
export class EpisodeReturns {
  readonly #byEpisode = new Map<number, number>();
  #since = 0;

  async read(after: (since: number) => readonly StoredEpisode[]): Promise<void> {
    for (;;) {
      const episodes = after(this.#since);
      if (episodes.length === 0) return;
      for (const { seq, episode, totalReward } of episodes) {
        this.#since = seq;
        if (Number.isFinite(totalReward)) this.#byEpisode.set(episode, totalReward);
      }
      await yieldToOthers();
    }
  }

  /** The newest reported return. */
  of(episode: number): number | undefined {
    return this.#byEpisode.get(episode);
  }
}
