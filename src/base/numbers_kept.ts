/** JSON whose numbers stay as they were written (1.0 stays 1.0, large integers keep their value). */

// JSON.parse with source access and JSON.rawJSON: TypeScript's library does not know them yet.
type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;
const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
};

/** What JSON.stringify writes again digit by digit. @throws SyntaxError for what is no JSON. */
export function parseKeepingNumbers(text: string): unknown {
  return parseWithSource(
    text,
    (_, value, context) => typeof value === "number" ? rawJson(context.source ?? String(value)) : value,
  );
}

/** An object with members: no array, no null, no number that was kept. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRawJson(value);
}
