/** "Did you mean …?" */
import { editDistance } from "./edit_distance.ts";

/** At most three known words similar to `word`, nearest first. */
export function nearest(word: string, known: readonly string[]): string[] {
  const lower = word.toLowerCase();
  const reach = Math.max(1, Math.floor(lower.length / 3));
  return known
    .map((k) => ({
      k,
      d: lower.length > 1 && k.toLowerCase().startsWith(lower)
        ? 0
        : editDistance(lower, k.toLowerCase()),
    }))
    .filter(({ d }) => d <= reach)
    .sort((a, b) => a.d - b.d || a.k.localeCompare(b.k))
    .slice(0, 3)
    .map(({ k }) => k);
}

/** " Did you mean a, b or c?", or "" if none is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  if (near.length === 0) return "";
  const last = near.pop()!;
  return ` Did you mean ${near.length === 0 ? last : `${near.join(", ")} or ${last}`}?`;
}
