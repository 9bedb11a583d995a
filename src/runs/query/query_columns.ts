/**
 * Columns by which runs are filtered and sorted: those of the table of runs, parameters and
 * metrics. Pure.
 */
import { MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { type RunColumn, runColumns } from "../fields/run_columns.ts";
import type { RunJson } from "../fields/run_types.ts";
import type { Value } from "./expression.ts";

const COLUMNS = new Map(runColumns().map((column) => [column.name, column]));
const RUN_COLUMNS = [...COLUMNS.keys()];
const AGGREGATES = ["last", "min", "max", "mean", "points", "min_step", "max_step"] as const;
export type Aggregate = typeof AGGREGATES[number];

/** `param.*`: all parameters of a run, as pairs of name and value. */
export const ALL_PARAMETERS = "*";

export type QueryColumn =
  | { type: "run"; name: string; of: RunColumn }
  | { type: "param"; name: string }
  | { type: "metric"; name: string; aggregate: Aggregate };

/**
 * `param.NAME`, `metric.NAME` (its last value) or `metric.NAME:max`, or a column of the run itself.
 * @param bare how to read any other name: as a parameter (in filters), or as an error
 * @throws MosaicError `invalid_argument`
 */
export function queryColumn(text: string, bare: "param" | "refused" = "refused"): QueryColumn {
  if (text.startsWith("param.") && text.length > 6) return { type: "param", name: text.slice(6) };
  if (text.startsWith("metric.") && text.length > 7) {
    const [, name, given] = /^metric\.(.+?)(?::([a-z_]+))?$/s.exec(text)!;
    const aggregate = AGGREGATES.find((one) => one === given);
    // A name may have a colon itself.
    if (given !== undefined && aggregate === undefined) {
      throw new MosaicError(
        "invalid_argument",
        `column "${text}": no "${given}".${didYouMean(given, AGGREGATES)}`,
        {
          hint: `After the colon stands one of ${
            AGGREGATES.join(", ")
          }; write metric.${name}:${given}:last for that name.`,
        },
      );
    }
    return { type: "metric", name: name!, aggregate: aggregate ?? "last" };
  }
  const of = COLUMNS.get(text);
  if (of !== undefined) return { type: "run", name: text, of };
  if (bare === "param") return { type: "param", name: text };
  throw new MosaicError(
    "invalid_argument",
    `no column "${text}".${didYouMean(text, RUN_COLUMNS)}`,
    {
      hint: `Columns: ${RUN_COLUMNS.join(", ")}, param.NAME, metric.NAME:max.`,
    },
  );
}

/** `metric.loss`, `metric.loss:min`. */
export function metricColumn(name: string, aggregate: string): string {
  // A name may end like an aggregate.
  return aggregate === "last" && !name.includes(":")
    ? `metric.${name}`
    : `metric.${name}:${aggregate}`;
}

/** A run's value of one of its own columns. @param now Unix milliseconds */
export function valueOf({ items, value }: RunColumn, run: RunJson, now: number): Value {
  return items?.(run) ?? value(run, now) ?? undefined;
}
