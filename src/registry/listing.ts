/** Filters and pages over runs, as SQL. */
import { MosaicError } from "../base/errors.ts";
import { PAGE_BYTES } from "../base/field_limits.ts";
import type { EventFilter, RunFilter, RunRow } from "./row_types.ts";

export const NEWEST_FIRST = "ORDER BY created_at DESC, run_id DESC";
export const OLDEST_FIRST = "ORDER BY created_at, run_id";

/** A run that went to the trash with the run that it is within. */
const WENT_WITH_PARENT =
  "EXISTS (SELECT 1 FROM runs AS p WHERE p.run_id = runs.parent AND p.deleted_at = runs.deleted_at)";

/** The token of the page that follows `last`. */
export function tokenAfter(last: RunRow): string {
  return `${last.createdAt}.${last.runId}`;
}

/** The WHERE clause of conditions that must all hold; "" without any. */
export function where(conditions: string[]): string {
  return conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
}

/**
 * A run must match every part of the filter and have all of its tags; names are compared ignoring
 * case.
 */
export function conditionsOf(
  filter: RunFilter,
): { conditions: string[]; values: (string | number)[] } {
  const conditions: string[] = [];
  const values: (string | number)[] = [];
  if (filter.states !== undefined && filter.states.length > 0) {
    conditions.push("state IN (SELECT value FROM json_each(?))");
    values.push(JSON.stringify(filter.states));
  }
  if (filter.nameContains) {
    conditions.push("instr(lower(name), lower(?)) > 0");
    values.push(filter.nameContains);
  }
  if (filter.tags !== undefined && filter.tags.length > 0) {
    // A run with damaged tags counts as having none; it must not make the whole list fail.
    const tags = "json_each(CASE WHEN json_valid(runs.tags) THEN runs.tags ELSE '[]' END)";
    conditions.push(
      `NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE wanted.value NOT IN (SELECT value FROM ${tags}))`,
    );
    values.push(JSON.stringify(filter.tags));
  }
  if (filter.submittedSince !== undefined) {
    conditions.push("created_at >= ?");
    values.push(Math.trunc(filter.submittedSince));
  }
  conditions.push(`deleted_at IS ${filter.deleted ? "NOT NULL" : "NULL"}`);
  if (filter.deleted) conditions.push(`NOT (${WENT_WITH_PARENT})`);
  if (filter.owner !== undefined) {
    conditions.push("owner = ?");
    values.push(filter.owner);
  }
  if (filter.within === undefined) {
    if (!filter.deleted) conditions.push("parent IS NULL");
  } else {
    conditions.push("parent = ?");
    values.push(filter.within);
  }
  return { conditions, values };
}

export function eventConditions(
  { runId, kinds, owner }: EventFilter,
): { conditions: string[]; values: string[] } {
  // Of a run in the trash, only that it went there.
  const conditions = [
    "(kind = 'trashed' OR run_id NOT IN (SELECT run_id FROM runs WHERE deleted_at IS NOT NULL))",
  ];
  const values: string[] = [];
  if (runId !== undefined) {
    conditions.push("run_id = ?");
    values.push(runId);
  }
  if (owner !== undefined) {
    conditions.push("run_id IN (SELECT run_id FROM runs WHERE owner = ?)");
    values.push(owner);
  }
  if (kinds?.length === 1 && kinds[0] === "alert") {
    // Not as a value: then SQLite would not see that their index suffices.
    conditions.push("kind = 'alert'");
  } else if (kinds !== undefined && kinds.length > 0) {
    conditions.push("kind IN (SELECT value FROM json_each(?))");
    values.push(JSON.stringify(kinds));
  }
  return { conditions, values };
}

/** The position that a page token names. @throws `invalid_argument`. */
export function placeOf(token: string): [number, string] {
  const match = /^(\d{1,16})\.(.+)$/.exec(token);
  if (match === null) {
    throw new MosaicError(
      "invalid_argument",
      `page token ${JSON.stringify(token)} is not one that a page of runs gave`,
    );
  }
  return [Number(match[1]), match[2]!];
}

/** About the bytes that a run has in a list; read from the rows' headers, without their texts. */
export const ROW_BYTES = `2048 + ${
  ["config_json", "notes", "tags", "stderr_tail"].map((column) =>
    `coalesce(octet_length(${column}), 0)`
  ).join(" + ")
}`;

/** How many of the first rows, each of these bytes, make a page: at least one. */
export function fitting(sizes: readonly number[]): number {
  let bytes = 0;
  const end = sizes.findIndex((size) => (bytes += size) > PAGE_BYTES);
  return end === -1 ? sizes.length : Math.max(1, end);
}
