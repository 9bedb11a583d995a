/** A config as a person may see it: numbers as they were written, secrets hidden. */

/** Names whose text values are hidden until somebody asks for them. */
const SECRET_NAME = /token|secret|passw|credential|api_?key|access_?key|private_?key|(^|_)key($|_)/i;
export const HIDDEN = "••••••••";

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

// JSON.parse with source access and JSON.rawJSON: TypeScript's library does not know them yet.
type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;
const rawJson = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

/**
 * `configJson` indented, its numbers digit by digit as they were (1.0 stays 1.0, large integers keep their value).
 * Unless `reveal`, text values under secret names are replaced; `hidden` counts them.
 */
export function presentConfig(configJson: string, reveal: boolean): { text: string; hidden: number } {
  let hidden = 0;
  const value = parseWithSource(configJson, (key, value, context) => {
    if (typeof value === "number") return rawJson(context.source ?? String(value));
    if (!reveal && typeof value === "string" && value !== "" && isSecretName(key)) {
      hidden++;
      return HIDDEN;
    }
    return value;
  });
  return { text: JSON.stringify(value, null, 2), hidden };
}
