/** The list of runs: filters of the core, order and pages by offset of our own. */
import type { Core } from "../core/core.ts";
import type { RunFilter, RunRow } from "../registry/types.ts";
import type { RunTelemetry } from "../telemetry/types.ts";
import { RUN_STATES, type RunState } from "../lifecycle/lifecycle.ts";
import { MosaicError } from "../errors.ts";
import { listOf, wholeNumber } from "./answers.ts";
import { runLine } from "./shapes.ts";

export const PAGE_LIMIT = 1000;
/** How many runs an order other than "created" looks at: the newest ones. Bounded, because it is done in one go. */
export const SORTED_LIMIT = 2000;

type Key = (row: RunRow, telemetry: () => RunTelemetry) => number | string;

const SORT_KEYS: Record<string, Key> = {
  created: (r) => r.createdAt,
  started: (r) => r.startedAt ?? 0,
  finished: (r) => r.finishedAt ?? 0,
  name: (r) => r.name,
  state: (r) => RUN_STATES.indexOf(r.state),
  steps: (_, t) => t().steps,
  episodes: (_, t) => t().episodes,
  reward: (_, t) => t().meanReward100 ?? -Infinity,
};

export function filterOf(query: Record<string, string | undefined>): RunFilter {
  const states = listOf(query.state).map((s) => s.toUpperCase());
  const unknown = states.find((s) => !(RUN_STATES as readonly string[]).includes(s));
  if (unknown !== undefined) {
    throw new MosaicError("invalid_argument", `state "${unknown}" does not exist; there are ${RUN_STATES.join(", ")}`);
  }
  const tags = listOf(query.tag);
  return {
    ...(states.length > 0 ? { states: states as RunState[] } : {}),
    ...(query.name ? { nameContains: query.name } : {}),
    ...(tags.length > 0 ? { tags } : {}),
  };
}

/**
 * One page. Newest first by `token`; any other `sort` (with `dir=asc|desc`) is by `offset`, over the newest
 * {@link SORTED_LIMIT} runs that match.
 */
export function listRuns(core: Core, query: Record<string, string | undefined>) {
  const filter = filterOf(query);
  const limit = wholeNumber("limit", query.limit, 100, 1, PAGE_LIMIT);
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
    return { runs: page.runs.map(runLine), total: page.total, next_token: page.nextToken ?? null };
  }
  const offset = wholeNumber("offset", query.offset, 0);
  const key = SORT_KEYS[sort]!;
  const sign = direction === "asc" ? 1 : -1;
  const keyed = newestRows(core, filter).map((row) => ({
    row,
    key: key(row, () => core.telemetry.summary(row.runId)),
  }));
  keyed.sort((a, b) => a.key < b.key ? -sign : a.key > b.key ? sign : a.row.runId < b.row.runId ? -sign : sign);
  const page = keyed.slice(offset, offset + limit);
  return {
    runs: page.map(({ row }) => runLine(core.detail(row))),
    total: core.registry.count(filter),
    next_token: null,
  };
}

function newestRows(core: Core, filter: RunFilter): RunRow[] {
  const rows: RunRow[] = [];
  let token: string | undefined;
  do {
    const page = core.registry.list(filter, { limit: PAGE_LIMIT, ...(token === undefined ? {} : { token }) });
    rows.push(...page.runs);
    token = page.nextToken;
  } while (token !== undefined && rows.length < SORTED_LIMIT);
  return rows;
}
