/**
 * JSON with numbers preserved exactly as written (1.0 stays 1.0, large integers keep their value).
 */

// JSON.parse with source access and JSON.rawJSON are not in TypeScript's library yet.
type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;
const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
};

/** Parses JSON so that JSON.stringify writes the numbers unchanged. @throws SyntaxError */
export function parseKeepingNumbers(text: string): unknown {
  return parseWithSource(
    text,
    (_, value, context) =>
      typeof value === "number" ? rawJson(context.source ?? String(value)) : value,
  );
}

/** Whether a value is a JSON object: not an array, null or preserved number. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRawJson(value);
}
