/**
 * Further columns of the table of runs: parameters, and values of metrics, for all runs at once.
 */
import { MosaicError } from "../../base/errors.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { parameterNames } from "../../dispatch/core/run_parameters.ts";
import { valuesByRun } from "../../dispatch/core/run_query.ts";
import { queryColumn } from "../../runs/query/query_columns.ts";
import type { ColumnNames, RunColumn } from "./page_json.ts";

const MOST = 24;
/** The columns to choose from. */
export function columnNames(core: Core): ColumnNames {
  return { parameters: parameterNames(core), metrics: core.records.seriesNames() };
}

/**
 * @param ids such as `param.lr`, `metric.loss:min` @throws `invalid_argument` for a column of the
 * run itself, and for too many
 */
export function runColumns(core: Core, ids: readonly string[]): RunColumn[] {
  if (ids.length > MOST) {
    throw new MosaicError(
      "invalid_argument",
      `${ids.length} columns were asked for; at most ${MOST} go in one request`,
    );
  }
  return ids.map((id) => {
    const column = queryColumn(id);
    if (column.type !== "run") return { id, values: Object.fromEntries(valuesByRun(core, column)) };
    throw new MosaicError("invalid_argument", `column "${id}" comes with each run`, {
      hint: "Ask for parameters and metrics: param.NAME, metric.NAME, metric.NAME:max.",
    });
  });
}
