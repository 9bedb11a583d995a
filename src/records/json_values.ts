/** Values of records in public JSON. */
import { rawJson } from "../base/text/json_text.ts";

/** JSON has no NaN and no infinities: their names are sent. */
export function finiteOrText(value: number): number | "NaN" | "Infinity" | "-Infinity" {
  return Number.isFinite(value) ? value : String(value) as "NaN" | "Infinity" | "-Infinity";
}

/**
 * The value of a worker's JSON text; text that is not JSON stays a text, bare NaN and infinities
 * become null.
 */
export function parsed(json: string): unknown {
  return json === "" ? null : JSON.parse(rawJson(json));
}
