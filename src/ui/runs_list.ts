/** The list of runs: filters of the core, order and pages by offset of our own. */
import type { Core, RunDetail } from "../core/core.ts";
import type { RunFilter } from "../registry/types.ts";
import { RUN_STATES, type RunState } from "../lifecycle/lifecycle.ts";
import { MosaicError } from "../errors.ts";
import { listOf, wholeNumber } from "./answers.ts";
import { type RunLine, runLine } from "./shapes.ts";

export const PAGE_LIMIT = 1000;
/** How many runs an order other than "created" looks at: the newest ones. */
export const SORTED_LIMIT = 20_000;

const SORT_KEYS = {
  created: (r: RunLine) => r.created_at,
  started: (r: RunLine) => r.started_at ?? 0,
  finished: (r: RunLine) => r.finished_at ?? 0,
  name: (r: RunLine) => r.name,
  state: (r: RunLine) => RUN_STATES.indexOf(r.state),
  steps: (r: RunLine) => r.steps,
  episodes: (r: RunLine) => r.episodes,
  reward: (r: RunLine) => r.mean_reward_100 ?? -Infinity,
  rate: (r: RunLine) => r.steps_per_second,
} as const;
export type SortKey = keyof typeof SORT_KEYS;

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
  const all = allRuns(core, filter);
  const key = SORT_KEYS[sort as SortKey];
  const sign = direction === "asc" ? 1 : -1;
  all.lines.sort((a, b) => {
    const x = key(a), y = key(b);
    return x < y ? -sign : x > y ? sign : a.run_id < b.run_id ? -sign : sign;
  });
  return { runs: all.lines.slice(offset, offset + limit), total: all.total, next_token: null };
}

function allRuns(core: Core, filter: RunFilter): { lines: RunLine[]; total: number } {
  const details: RunDetail[] = [];
  let token: string | undefined;
  let total = 0;
  do {
    const page = core.list(filter, { limit: PAGE_LIMIT, ...(token === undefined ? {} : { token }) });
    details.push(...page.runs);
    total = page.total;
    token = page.nextToken;
  } while (token !== undefined && details.length < SORTED_LIMIT);
  return { lines: details.map(runLine), total };
}
