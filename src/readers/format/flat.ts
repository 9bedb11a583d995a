/** Nested objects as flat names. */
import { numberOfValue } from "./literal.ts";
import type { ParamValue } from "./tracker_records.ts";

const MAX_DEPTH = 16;

export function isObject(value: ParamValue | undefined): value is { [key: string]: ParamValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The numbers of an object, by the path of their keys joined with `separator`. Lists, texts and
 * flags are omitted.
 */
export function flatNumbers(
  object: { [key: string]: ParamValue },
  separator: string,
  into = new Map<string, number>(),
  prefix = "",
  depth = 0,
): Map<string, number> {
  for (const [key, value] of Object.entries(object)) {
    const name = prefix + key;
    if (isObject(value)) {
      if (depth < MAX_DEPTH) flatNumbers(value, separator, into, name + separator, depth + 1);
      continue;
    }
    const number = numberOfValue(value);
    if (number !== undefined) into.set(name, number);
  }
  return into;
}
