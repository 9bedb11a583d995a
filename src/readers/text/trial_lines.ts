/** What Optuna prints when a trial of a study ends. Pure. */
import { literalOf } from "../format/literal.ts";
import type { ParamValue } from "../format/tracker_records.ts";

export interface PrintedTrial {
  number: number;
  /** `finished`, `pruned`, `failed`. */
  state: "finished" | "pruned" | "failed";
  /** Of its objectives. */
  values: number[];
  parameters: { [key: string]: ParamValue };
}

/**
 * [I 2026-01-01 12:00:00,123] Trial 3 finished with value: 0.5 and parameters: {'x': 1.5}. Best is
 * trial 1 with value: 0.1.
 */
const ENDED =
  /(?:^|[\s\]])Trial (\d{1,9}) (finished with values?: |pruned\b|failed with parameters: )/;
const BEHIND = " and parameters: ";
const LONGEST = 16 << 10;

export function trialOf(text: string): PrintedTrial | undefined {
  if (text.length > LONGEST) return undefined;
  const found = ENDED.exec(text);
  if (found === null) return undefined;
  const number = Number(found[1]);
  const rest = text.slice(found.index + found[0].length);
  if (found[2]!.startsWith("pruned")) {
    return { number, state: "pruned", values: [], parameters: {} };
  }
  if (found[2]!.startsWith("failed")) {
    return { number, state: "failed", values: [], parameters: objectAt(rest) ?? {} };
  }
  const at = rest.indexOf(BEHIND);
  const values = at < 0 ? undefined : literalOf(rest.slice(0, at));
  const parameters = at < 0 ? undefined : objectAt(rest.slice(at + BEHIND.length));
  const numbers = Array.isArray(values) ? values : [values];
  if (parameters === undefined || !numbers.every((one): one is number => typeof one === "number")) {
    return undefined;
  }
  return { number, state: "finished", values: numbers, parameters };
}

/** The object at the beginning of a text; it may have braces in its strings. */
function objectAt(text: string): { [key: string]: ParamValue } | undefined {
  if (text[0] !== "{") return undefined;
  let ends = 0;
  for (
    let end = text.indexOf("}");
    end >= 0 && ends < 16;
    end = text.indexOf("}", end + 1), ends++
  ) {
    const value = literalOf(text.slice(0, end + 1));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  }
  return undefined;
}
