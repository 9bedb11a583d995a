/**
 * The manual cut at its headings, and the search in it. Pure; the site's script runs it in a
 * browser.
 */

export interface Section {
  /** Of its page. */
  page: string;
  title: string;
  /** Empty for what stands before the first heading below the title. */
  heading: string;
  /** The anchor of the heading. */
  anchor: string;
  text: string;
}

/** The anchor of a heading, as GitHub makes it: lower case, words joined by hyphens. */
export function anchorOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");
}

export function sectionsOf(page: { name: string; title: string; text: string }): Section[] {
  const sections: Section[] = [{
    page: page.name,
    title: page.title,
    heading: "",
    anchor: "",
    text: "",
  }];
  let inCode = false;
  for (const line of page.text.split("\n")) {
    if (line.startsWith("```")) inCode = !inCode;
    const heading = inCode ? undefined : /^##+ (.+)$/.exec(line)?.[1]?.replaceAll("`", "");
    if (heading === undefined) {
      if (!line.startsWith("# ")) sections.at(-1)!.text += `${line}\n`;
    } else {sections.push({
        page: page.name,
        title: page.title,
        heading,
        anchor: anchorOf(heading),
        text: "",
      });}
  }
  return sections;
}

const TITLE_WEIGHT = 40;
const HEADING_WEIGHT = 20;
const MOST_OCCURRENCES = 10;

/**
 * The sections that contain every word of the query, best first: words in a title or heading count
 * most. A word is matched from its beginning, in any case.
 */
export function search(sections: readonly Section[], query: string, limit = 20): Section[] {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_.-]+/gu) ?? [];
  if (words.length === 0) return [];
  const scored = sections.flatMap((section) => {
    let score = 0;
    for (const word of words) {
      const inTitle = occurrences(section.title, word) > 0 ? TITLE_WEIGHT : 0;
      const inHeading = occurrences(section.heading, word) > 0 ? HEADING_WEIGHT : 0;
      const points = inTitle + inHeading + occurrences(section.text, word);
      if (points === 0) return [];
      score += points;
    }
    return [{ section, score }];
  });
  return scored.sort((a, b) => b.score - a.score).slice(0, limit).map(({ section }) => section);
}

function occurrences(text: string, word: string): number {
  const lower = text.toLowerCase();
  let count = 0;
  for (
    let at = lower.indexOf(word);
    at >= 0 && count < MOST_OCCURRENCES;
    at = lower.indexOf(word, at + 1)
  ) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1]!)) count++;
  }
  return count;
}

/** The first line of the section that has one of the words, without Markdown, shortened. */
export function excerpt(section: Section, query: string, length = 160): string {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_.-]+/gu) ?? [];
  const lines = section.text.split("\n").map((line) =>
    line.replace(/[`*|]|\]\([^)]*\)|\[/g, " ").replace(/\s+/g, " ").trim()
  )
    .filter((line) => /\p{L}/u.test(line));
  const found = lines.find((line) => words.some((word) => line.toLowerCase().includes(word))) ??
    lines[0] ?? "";
  if (found.length <= length) return found;
  const at = Math.max(0, found.toLowerCase().indexOf(words[0] ?? "") - length / 3);
  return `${at > 0 ? "…" : ""}${found.slice(at, at + length).trim()}…`;
}
