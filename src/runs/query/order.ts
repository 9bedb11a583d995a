/**
 * The one order of runs by a column: of the daemon's lists, the page, groups and MLflow's clients.
 * Pure.
 */
import type { Value } from "./expression.ts";

/**
 * Runs without the value come last in either direction, after those with null; numbers before
 * texts. NaN is no value.
 */
export function byValue(a: Value, b: Value, descending: boolean): number {
  if (rank(a) !== rank(b) || rank(a) === NONE) return rank(a) - rank(b);
  const [x, y] = typeof a === "number" ? [a, b as number] : [textOf(a), textOf(b)];
  return x === y ? 0 : (x < y ? -1 : 1) * (descending ? -1 : 1);
}

const NONE = 4;

function rank(value: Value): number {
  if (value === undefined || Number.isNaN(value)) return NONE;
  return value === null ? 3 : typeof value === "number" ? 0 : 1;
}

function textOf(value: Value): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

/** A sort such as `-param.lr`; "" for the usual order. */
export function sortOf(text: string): { column: string; descending: boolean } {
  return { column: text.replace(/^-/, ""), descending: text.startsWith("-") };
}
