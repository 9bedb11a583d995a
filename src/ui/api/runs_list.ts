/** The list of runs as the page asks for it. */
import type { Core } from "../../dispatch/core/core.ts";
import type { RunFilter } from "../../registry/row_types.ts";
import { RUN_STATES, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import { MosaicError } from "../../base/errors.ts";
import { listOf, wholeNumber } from "../http/answers.ts";
import { runJson } from "../../runs/fields/run_json.ts";

const PAGE_LIMIT = 1000;
function filterOf(query: Record<string, string | undefined>): RunFilter {
  const states = listOf(query.state).map((s) => s.toUpperCase());
  const unknown = states.find((s) => !(RUN_STATES as readonly string[]).includes(s));
  if (unknown !== undefined) {
    throw new MosaicError(
      "invalid_argument",
      `state "${unknown}" does not exist; there are ${RUN_STATES.join(", ")}`,
    );
  }
  const tags = listOf(query.tag);
  return {
    ...(states.length > 0 ? { states: states as RunState[] } : {}),
    ...(query.within ? { within: query.within } : {}),
    ...(query.trash === undefined ? {} : { deleted: true }),
    ...(query.name ? { nameContains: query.name } : {}),
    ...(tags.length > 0 ? { tags } : {}),
  };
}

/** One page, newest first unless `sort` names a column: `steps`, `-param.lr`. */
export async function listRuns(core: Core, query: Record<string, string | undefined>) {
  const { where = "", sort = "", token } = query;
  const page = await core.query(filterOf(query), {
    ...{ where, sort, token: token || undefined, columns: listOf(query.columns) },
    limit: wholeNumber("limit", query.limit, 100, 1, PAGE_LIMIT),
  });
  return {
    runs: page.runs.map(runJson),
    ...(page.values.length === 0 ? {} : { values: page.values }),
    ...{ total: page.total, next_token: page.nextToken ?? null },
  };
}
