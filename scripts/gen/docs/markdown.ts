/** Tables of generated pages. */

/** Text of `--help` as Markdown. */
export function escaped(text: string): string {
  return withLinks(text.replaceAll("\\", "\\\\").replaceAll("`", "\\`"));
}

/** Text with code in backticks as Markdown; other pages that it names become links. */
export function withLinks(text: string): string {
  return text.replace(/[*<|]/g, "\\$&").replace(
    /docs\/([a-z-]+\/)([a-z-]+)\.md(#[\w-]+)?/g,
    (_, folder: string, page: string, anchor = "") => `[${page}](../${folder}${page}.md${anchor})`,
  );
}

export function code(text: string): string {
  return `\`${text.replaceAll("|", "\\|")}\``;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `|${cells.map((cell) => cell === "" ? " " : ` ${cell} `).join("|")}|`;
  return `${[line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n")}\n`;
}
