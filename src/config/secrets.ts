/** A config as a person may see it: numbers as they were written, secrets hidden. What is stored stays as it is. */
import { isPlainObject, parseKeepingNumbers } from "./numbers_kept.ts";
import { isJson } from "../telemetry/json.ts";

/** Names whose text values are hidden until somebody asks for them. (A tokenizer and a number of tokens are none.) */
const SECRET_NAME =
  /token(?!i[sz]|s)|secret|passw|passphrase|credential|authorization|api[_-]?key|access[_-]?key|private[_-]?key|(^|[_-])key($|[_-])/i;
/** The password in a URL. */
const URL_PASSWORD = /(\w:\/\/[^\s:@/]*:)[^\s@/]+(?=@)/g;
export const HIDDEN = "••••••••";

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A text under a name, without what nobody should read over a shoulder. */
export function hideSecret(name: string, text: string): string {
  return text !== "" && isSecretName(name) ? HIDDEN : text.replace(URL_PASSWORD, `$1${HIDDEN}`);
}

/** Words of a command line: `--api-key=VALUE`, `--api-key VALUE` and `API_KEY=VALUE` lose their values. */
export function hideSecretArguments(words: readonly unknown[]): unknown[] {
  return words.map((word, i) => {
    if (typeof word !== "string") return word;
    const [, name, value] = /^(-{0,2}[A-Za-z][\w-]*)=([^]+)$/.exec(word) ?? [];
    if (name !== undefined) return `${name}=${hideSecret(name, value!)}`;
    const before = words[i - 1];
    const isValue = typeof before === "string" && /^-{1,2}[A-Za-z][\w-]*$/.test(before) && !word.startsWith("-");
    return hideSecret(isValue ? before : "", word);
  });
}

/**
 * `configJson` indented, its numbers digit by digit as they were (1.0 stays 1.0, large integers keep their value).
 * Unless `reveal`, secrets are replaced: all texts below a secret name, values of such options in lists of words,
 * passwords in URLs. `hidden` counts them. A stored config that was damaged such that it is no JSON is one text, and
 * hidden as a whole.
 */
export function presentConfig(configJson: string, reveal: boolean): { text: string; hidden: number } {
  if (!isJson(configJson)) return { text: JSON.stringify(reveal ? configJson : HIDDEN), hidden: reveal ? 0 : 1 };
  const stored = parseKeepingNumbers(configJson);
  const shown = reveal ? stored : withoutSecrets("", stored);
  return { text: JSON.stringify(shown, null, 2), hidden: countChanges(stored, shown) };
}

/** A value of a config under a name, without what nobody should read over a shoulder. Below a secret name all is secret. */
export function withoutSecrets(name: string, value: unknown): unknown {
  if (typeof value === "string") return hideSecret(name, value);
  const isSecret = isSecretName(name);
  if (Array.isArray(value)) {
    const words = isSecret ? value : hideSecretArguments(value);
    return words.map((word) =>
      typeof word === "string" && !isSecret ? word : withoutSecrets(isSecret ? name : "", word)
    );
  }
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, withoutSecrets(isSecret ? name : key, inner)]),
  );
}

/** Texts that differ between two values of the same structure. */
function countChanges(before: unknown, after: unknown): number {
  if (typeof before !== "object" || before === null) return before === after ? 0 : 1;
  return Object.entries(before).reduce(
    (sum, [key, inner]) => sum + countChanges(inner, (after as Record<string, unknown>)[key]),
    0,
  );
}
