/** In which lines two runs' changes to their commits differ. Pure. */
import { bytesText, type DiffPart, partsOf, textBytes } from "./diff_parts.ts";

/** Lines that are shown of one file. */
const MOST_LINES = 200;

/**
 * For each file whose changes differ: its name, then lines that only the first run's changes have
 * ("<"), and those that only the second's have (">"): "< +lr = 0.1".
 */
export function differingLines(
  a: Uint8Array = new Uint8Array(),
  b: Uint8Array = new Uint8Array(),
): string[] {
  const [first, second] = [a, b].map((diff) =>
    new Map(partsOf(bytesText(diff)).map((part) => [part.path, part]))
  );
  return [...new Set([...first!.keys(), ...second!.keys()])].sort().flatMap((path) => {
    const [x, y] = [first!.get(path), second!.get(path)];
    if (x?.text === y?.text) return [];
    const [before, now] = [changedLines(x), changedLines(y)];
    const lines = [
      ...only(before, now).map((line) => `< ${line}`),
      ...only(now, before).map((line) => `> ${line}`),
    ];
    const more = lines.length - MOST_LINES;
    return [path, ...lines.slice(0, MOST_LINES), ...(more > 0 ? [`… ${more} more lines`] : [])];
  });
}

function changedLines(part: DiffPart | undefined): string[] {
  const at = part?.text.search(/^@@ /m) ?? -1;
  if (at < 0) return [];
  return new TextDecoder().decode(textBytes(part!.text.slice(at))).split("\n").filter((line) =>
    /^[-+]/.test(line)
  );
}

/** As often as they are more in the first list. */
function only(lines: readonly string[], others: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of others) left.set(line, (left.get(line) ?? 0) + 1);
  return lines.filter((line) => {
    const n = left.get(line) ?? 0;
    left.set(line, n - 1);
    return n <= 0;
  });
}
