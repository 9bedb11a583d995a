/** Warns of requested parameters and metrics that no run has, because a name may be misspelt. */
import { didYouMean } from "../../base/text/nearest.ts";
import { queryColumn } from "../../runs/query/query_columns.ts";
import { columnsOf, parseExpression } from "../../runs/query/expression.ts";

/** The daemon's bound on the names of each kind. */
const MAX_NAMES = 10_000;

export interface KnownColumns {
  parameters: readonly string[];
  metrics: readonly string[];
}

/**
 * One sentence for each such name. @param where a filter that the daemon has accepted @param
 * columns `param.NAME`, `metric.NAME`
 */
export function unknownColumns(
  where: string,
  columns: readonly string[],
  known: KnownColumns,
): string[] {
  const used = [...(where === "" ? [] : columnsOf(parseExpression(where))), ...columns];
  return [...new Set(used.map((column) => unknown(column, known)))].filter((text) =>
    text !== undefined
  );
}

function unknown(column: string, { parameters, metrics }: KnownColumns): string | undefined {
  const { type, name } = queryColumn(column, "param");
  // Series that every run has, although no metric has that name.
  if (type === "run" || ["reward", "episode_reward", "episode_length"].includes(name)) {
    return undefined;
  }
  const names = type === "param" ? parameters : metrics;
  if (names.length >= MAX_NAMES || names.includes(name)) return undefined;
  const what = type === "param" ? "parameter" : "metric";
  return `no run has the ${what} "${name}".${didYouMean(name, names)}`;
}
