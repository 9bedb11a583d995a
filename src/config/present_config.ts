/**
 * Presents a config to people: numbers as written, secrets hidden. The stored config does not
 * change.
 */
import { parseKeepingNumbers } from "../base/text/exact_numbers.ts";
import { isJson } from "../base/text/json_text.ts";
import { HIDDEN, withoutSecrets } from "../base/text/secrets.ts";

/**
 * `configJson` indented, with its numbers as they were written (1.0 stays 1.0, large integers keep
 * their value). Unless `reveal`, secrets are replaced: all texts below a secret name, values of
 * such options in lists of words, and texts that look like a secret anywhere (SECRET_TEXTS).
 * `hidden` counts them. A damaged config that is no JSON is one text, and hidden completely.
 */
export function presentConfig(
  configJson: string,
  reveal: boolean,
): { text: string; hidden: number } {
  if (!isJson(configJson)) {
    return { text: JSON.stringify(reveal ? configJson : HIDDEN), hidden: reveal ? 0 : 1 };
  }
  const stored = parseKeepingNumbers(configJson);
  const shown = reveal ? stored : withoutSecrets("", stored);
  return { text: JSON.stringify(shown, null, 2), hidden: countChanges(stored, shown) };
}

/** Texts that differ between two values of the same structure. */
function countChanges(before: unknown, after: unknown): number {
  if (typeof before !== "object" || before === null) return before === after ? 0 : 1;
  return Object.entries(before).reduce(
    (sum, [key, inner]) => sum + countChanges(inner, (after as Record<string, unknown>)[key]),
    0,
  );
}
