/** "Did you mean …?" */

/** Edit distance in which two neighbouring letters swapped count as one change. */
export function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, before[j - 2]! + 1);
      row.push(best);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}

/** The known words that `word` was probably meant to be, nearest first, at most three. */
export function nearest(word: string, known: readonly string[]): string[] {
  const lower = word.toLowerCase();
  const reach = Math.max(1, Math.floor(lower.length / 3));
  return known
    .map((k) => ({
      k,
      d: lower.length > 1 && k.toLowerCase().startsWith(lower) ? 0 : distance(lower, k.toLowerCase()),
    }))
    .filter(({ d }) => d <= reach)
    .sort((a, b) => a.d - b.d || a.k.localeCompare(b.k))
    .slice(0, 3)
    .map(({ k }) => k);
}

/** " Did you mean a, b or c?", or "" when nothing is near. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  if (near.length === 0) return "";
  const last = near.pop()!;
  return ` Did you mean ${near.length === 0 ? last : `${near.join(", ")} or ${last}`}?`;
}
