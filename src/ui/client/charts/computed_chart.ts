/** Charts that are computed of others: `a / b`, `a - b`, `max(a)`, `min(a)`. Pure. */
import type { SeriesColumns } from "../../api/page_json.ts";
import { numbers, valuesAt } from "./smoothing.ts";

/** Running extremes have one name, the others two. */
export interface ChartExpression {
  operator: "/" | "-" | "max" | "min";
  names: string[];
}

/**
 * Names may hold the signs themselves (`train/loss`): a sign counts where names stand on both of
 * its sides.
 * @returns undefined if it is none
 */
export function chartExpression(
  text: string,
  names: readonly string[],
): ChartExpression | undefined {
  const known = new Set(names);
  const [, extreme, of] = /^\s*(max|min)\s*\((.+)\)\s*$/s.exec(text) ?? [];
  if (of !== undefined && known.has(of.trim())) {
    return { operator: extreme as "max", names: [of.trim()] };
  }
  for (const { 0: sign, index } of text.matchAll(/[-/]/g)) {
    const both = [text.slice(0, index).trim(), text.slice(index + 1).trim()];
    if (both.every((name) => known.has(name))) return { operator: sign as "/", names: both };
  }
  return undefined;
}

/** The curve of one run. @param of its curves, in the order of the expression's names */
export function computed(
  { operator }: ChartExpression,
  [a, b]: readonly SeriesColumns[],
  name: string,
): SeriesColumns {
  const values = operator === "max" || operator === "min"
    ? running(a!, operator)
    : together(a!, b!, operator);
  // What has no number is a hole, as in every curve.
  const shown = values.map((v) => v ?? "NaN");
  return { ...a!, name, mean: shown, min: shown, max: shown, last: shown };
}

function running({ max, min }: SeriesColumns, which: "max" | "min"): (number | null)[] {
  const choose = which === "max" ? Math.max : Math.min;
  let best: number | null = null;
  return numbers(which === "max" ? max : min).map((v) => {
    if (v !== null) best = best === null ? v : choose(best, v);
    return best;
  });
}

function together(a: SeriesColumns, b: SeriesColumns, operator: "/" | "-"): (number | null)[] {
  const other = valuesAt(a, b);
  return numbers(a.mean).map((v, i) => {
    const w = other[i];
    if (v === null || w === undefined) return null;
    const result = operator === "-" ? v - w : v / w;
    return Number.isFinite(result) ? result : null;
  });
}
