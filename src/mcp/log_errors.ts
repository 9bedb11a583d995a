/** The lines of a log that say why a program failed. Pure. */
const ERROR =
  /\b(?:error|exception|traceback|fatal|panic|abort(?:ed)?|killed|failed|failure|nan|out of memory|oom|segmentation fault|assert(?:ion)?)\b/i;
/** Bounds on an answer, which a model reads whole. */
const LONGEST_LINE = 400;
const AROUND = 2;

export interface Excerpt {
  lines: string[];
  /** Lines of the text that were looked at. */
  looked: number;
  matched: number;
}

/**
 * The newest lines that name an error, each with two lines before and after it; consecutive equal
 * lines are one.
 * @param most number of lines returned
 */
export function errorLines(text: string, most: number): Excerpt {
  const all = text.split(/\r\n|\n|\r/);
  const wanted = new Set<number>();
  let matched = 0;
  for (let i = all.length - 1; i >= 0; i--) {
    if (!ERROR.test(all[i]!.slice(0, LONGEST_LINE))) continue;
    matched++;
    if (wanted.size >= most) continue;
    for (let k = Math.max(0, i - AROUND); k <= Math.min(all.length - 1, i + AROUND); k++) {
      wanted.add(k);
    }
  }
  return {
    lines: lastLines([...wanted].sort((a, b) => a - b).map((i) => all[i]!), most),
    looked: all.length,
    matched,
  };
}

/** The last lines of a text, cut to a width that a reader needs. */
export function lastLines(lines: readonly string[], most: number): string[] {
  return lines.slice(-most).map((line) => {
    const shown = line.trimEnd();
    return shown.length <= LONGEST_LINE
      ? shown
      : `${shown.slice(0, LONGEST_LINE)}… (${shown.length} characters)`;
  });
}
