/** Further columns of the table of runs: parameters, and values of metrics, for all runs at once. */
import { MosaicError } from "../../base/errors.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { parameterNames, parametersNamed } from "../../dispatch/core/run_parameters.ts";
import type { ColumnNames, RunColumn } from "./page_json.ts";

const MOST = 24;
/** The values of a metric that a column can show. */
const FIGURES = ["last", "min", "max"] as const;

/** The columns to choose from. */
export function columnNames(core: Core): ColumnNames {
  return { parameters: parameterNames(core), metrics: core.records.seriesNames() };
}

/**
 * @param ids `parameter:NAME`, `last:METRIC`, `min:METRIC` or `max:METRIC`
 * @throws `invalid_argument` for an id of another form, and for too many
 */
export function runColumns(core: Core, ids: readonly string[]): RunColumn[] {
  if (ids.length > MOST) {
    throw new MosaicError(
      "invalid_argument",
      `${ids.length} columns were asked for; at most ${MOST} go in one request`,
    );
  }
  return ids.map((id) => {
    const [kind, name] = [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)];
    if (kind === "parameter") return { id, values: Object.fromEntries(parametersNamed(core, name)) };
    const figure = FIGURES.find((f) => f === kind);
    if (figure === undefined) {
      throw new MosaicError("invalid_argument", `column "${id}" does not exist`, {
        hint: "Columns are parameter:NAME, last:METRIC, min:METRIC and max:METRIC.",
      });
    }
    return { id, values: Object.fromEntries(core.records.seriesNamed(name).map((s) => [s.runId, s[figure]])) };
  });
}
