/** Recognizes a tracker's files in a directory. */
import { formatOfName } from "./formats.ts";

/** Names that only trackers use. Any other table or JSON Lines file may be a data set. */
const TRACKERS =
  /\.tfevents\.|\.wandb$|(?:^|\.)monitor\.csv$|^progress[^/]*\.(?:csv|json)$|^metrics\.(?:csv|jsonl)$|^result\.json$/;

export function isOfTracker(name: string): boolean {
  return TRACKERS.test(name) && formatOfName(name) !== undefined;
}

export function isMonitor(name: string): boolean {
  return /(?:^|\.)monitor\.csv$/.test(name);
}

/** Without the second file of the same rows: Stable-Baselines3 and Tune write both. */
export function withoutCopies(names: readonly string[]): string[] {
  const isCopy = (name: string) =>
    /^progress.*\.csv$/.test(name) &&
    (names.includes(name.replace(/csv$/, "json")) || (name === "progress.csv" && names.includes("result.json")));
  return names.filter((name) => !isCopy(name));
}
