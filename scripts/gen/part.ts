/**
 * The text of a file with another generated part, which stands between two lines.
 * @param name of the part, behind the beginning of a comment, such as `// Run`
 * @param from the source of the part
 */
export function withPart(path: string, name: string, from: string, part: string): string {
  const text = Deno.readTextFileSync(path);
  const close = name.startsWith("<!--") ? " -->" : "";
  const [open, word] = name.split(" ");
  const begin = `${name}: written by "deno task gen" from ${from}${close}\n`;
  const end = `${open} end of ${word}${close}\n`;
  const [first, last] = [text.indexOf(begin), text.indexOf(end)];
  if (first < 0 || last < first) throw new Error(`${path} has no lines ${begin}${end}`);
  return text.slice(0, first + begin.length) + part + text.slice(last);
}
