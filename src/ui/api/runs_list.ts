/** The list of runs: filters of the core, with sorting and pages by offset added here. */
import type { Core } from "../../dispatch/core/core.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import type { RunTelemetry } from "../../records/stored.ts";
import { RUN_STATES, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import { MosaicError } from "../../base/errors.ts";
import { listOf, wholeNumber } from "../http/answers.ts";
import { runJson } from "../../runs/fields/run_json.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";

const PAGE_LIMIT = 1000;
/** Runs read at once for an order other than "created"; between such chunks the daemon does other work. */
const RUNS_AT_ONCE = 200;

type Key = (row: RunRow, telemetry: () => RunTelemetry, core: Core) => number | string;

const SORT_KEYS: Record<string, Key> = {
  created: (r) => r.createdAt,
  started: (r) => r.startedAt ?? 0,
  finished: (r) => r.finishedAt ?? 0,
  name: (r) => r.name,
  state: (r) => RUN_STATES.indexOf(r.state),
  steps: (_, t) => t().steps,
  episodes: (_, t) => t().episodes,
  reward: (r, _, core) => core.rewardOf(r) ?? -Infinity,
};

function filterOf(query: Record<string, string | undefined>): RunFilter {
  const states = listOf(query.state).map((s) => s.toUpperCase());
  const unknown = states.find((s) => !(RUN_STATES as readonly string[]).includes(s));
  if (unknown !== undefined) {
    throw new MosaicError("invalid_argument", `state "${unknown}" does not exist; there are ${RUN_STATES.join(", ")}`);
  }
  const tags = listOf(query.tag);
  return {
    ...(states.length > 0 ? { states: states as RunState[] } : {}),
    ...(query.within ? { within: query.within } : {}),
    ...(query.name ? { nameContains: query.name } : {}),
    ...(tags.length > 0 ? { tags } : {}),
  };
}

/** One page. Newest first by `token`; any other `sort` (with `dir=asc|desc`) is by `offset`, over all runs that match. */
export async function listRuns(core: Core, query: Record<string, string | undefined>) {
  const filter = filterOf(query);
  const limit = wholeNumber("limit", query.limit, 100, 1, PAGE_LIMIT);
  const columns = listOf(query.columns);
  if (query.where || columns.length > 0 || /^-?(?:param|metric)\./.test(query.sort ?? "")) {
    const { where = "", sort = "", token } = query;
    const page = await core.query(filter, { where, sort, columns, limit, token: token || undefined });
    return { runs: page.runs.map(runJson), values: page.values, total: page.total, next_token: page.nextToken ?? null };
  }
  const sort = query.sort || "created";
  const direction = query.dir || "desc";
  if (!Object.hasOwn(SORT_KEYS, sort)) {
    throw new MosaicError(
      "invalid_argument",
      `sort "${sort}" does not exist; there are ${Object.keys(SORT_KEYS).join(", ")}`,
    );
  }
  if (sort === "created" && direction === "desc" && !query.offset) {
    const page = core.list(filter, { limit, ...(query.token ? { token: query.token } : {}) });
    return { runs: page.runs.map(runJson), total: page.total, next_token: page.nextToken ?? null };
  }
  const offset = wholeNumber("offset", query.offset, 0);
  const sign = direction === "asc" ? 1 : -1;
  const keyed = await keyedRuns(core, filter, SORT_KEYS[sort]!);
  keyed.sort((a, b) => a.key < b.key ? -sign : a.key > b.key ? sign : a.runId < b.runId ? -sign : sign);
  // Leave out runs that were deleted in the meantime.
  const rows = keyed.slice(offset, offset + limit).map(({ runId }) => core.runs.get(runId));
  return {
    runs: rows.filter((row) => row !== undefined).map((row) => runJson(core.detail(row))),
    total: core.runs.count(filter),
    next_token: null,
  };
}

async function keyedRuns(core: Core, filter: RunFilter, key: Key): Promise<{ runId: string; key: number | string }[]> {
  const keyed: { runId: string; key: number | string }[] = [];
  let token: string | undefined;
  do {
    const page = core.runs.list(filter, { limit: RUNS_AT_ONCE, ...(token === undefined ? {} : { token }) });
    for (const row of page.runs) {
      keyed.push({ runId: row.runId, key: key(row, () => core.records.summary(row.runId), core) });
    }
    token = page.nextToken;
    if (token !== undefined) await yieldToOthers();
  } while (token !== undefined);
  return keyed;
}
