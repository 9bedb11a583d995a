/**
 * Lists of runs filtered and sorted by parameters and metrics, over all matching runs, not only one
 * page.
 */
import { MosaicError } from "../../base/errors.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { outlineJson, runJson } from "../../runs/fields/run_json.ts";
import type { RunDetail, RunJson } from "../../runs/fields/run_types.ts";
import {
  ALL_PARAMETERS,
  type QueryColumn,
  queryColumn,
  valueOf,
} from "../../runs/query/query_columns.ts";
import { byValue, sortOf } from "../../runs/query/order.ts";
import { stepsReached } from "../../records/progress_series.ts";
import { objectiveOf, type Objectives, oneNumber } from "../../records/objective.ts";
import { fitting } from "../../registry/listing.ts";
import {
  Budget,
  columnsOf,
  fits,
  parseExpression,
  type Value,
} from "../../runs/query/expression.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { RunFilter, RunOutline, RunRow } from "../../registry/row_types.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import { parametersNamed, parametersOfRun } from "./run_parameters.ts";

export interface RunQuery {
  /** "" for all. */
  where: string;
  /** A column; a leading "-" means descending; "": newest first. */
  sort: string;
  /** Columns whose values are returned with each run. */
  columns: readonly string[];
  limit: number;
  /** From the previous page. */
  token?: string | undefined;
}

export interface QueryPage {
  found: { runId: string; values: Exclude<Value, undefined>[] }[];
  nextToken: string | undefined;
  total: number;
}

export interface ValueReaders {
  runs: RunReader;
  records: TelemetryReader;
}

interface Readers extends ValueReaders {
  detail(row: RunRow): RunDetail;
  /** Of runs that choose none. */
  objectives: Objectives;
}

type Lookup = (run: RunOutline) => Value;
/** A position in the order. */
interface Place {
  key: Value;
  createdAt: number;
  runId: string;
}

const MAX_COLUMNS = 100;
/** Runs read in one turn. */
const RUNS_AT_ONCE = 500;

/** @throws MosaicError `invalid_argument` for an invalid filter, column or page token */
export async function queryRuns(
  readers: Readers,
  filter: RunFilter,
  query: RunQuery,
): Promise<QueryPage> {
  if (query.columns.length > MAX_COLUMNS) {
    throw new MosaicError(
      "invalid_argument",
      `columns are ${query.columns.length}; at most ${MAX_COLUMNS} can be asked for`,
    );
  }
  const after = query.token === undefined ? undefined : placeOf(query.token, query);
  const lookups = new Map<string, Lookup>();
  const lookup = (name: string, column: QueryColumn) => {
    if (!lookups.has(name)) lookups.set(name, lookupOf(readers, column));
    return lookups.get(name)!;
  };
  const where = query.where.trim() === "" ? undefined : parseExpression(query.where);
  const tested = new Map(
    where === undefined ? [] : [...columnsOf(where)].map((
      name,
    ) => [name, lookup(`w ${name}`, queryColumn(name, "param"))]),
  );
  const { column: sort, descending } = sortOf(query.sort);
  const budget = new Budget();
  const keyOf: Lookup = sort === "" ? () => undefined : lookup(sort, queryColumn(sort));
  const columns = query.columns.map((name) => lookup(name, queryColumn(name)));

  const matching: { run: RunOutline; place: Place }[] = [];
  const outlines = readers.runs.outlines(filter);
  for (const [i, run] of outlines.entries()) {
    if (i % RUNS_AT_ONCE === RUNS_AT_ONCE - 1) await yieldToOthers();
    if (where !== undefined && !fits(where, (name) => tested.get(name)!(run), budget)) continue;
    matching.push({ run, place: { key: keyOf(run), createdAt: run.createdAt, runId: run.runId } });
  }
  matching.sort((a, b) => compare(a.place, b.place, descending));
  const start = after === undefined
    ? 0
    : matching.findIndex(({ place }) => compare(after, place, descending) < 0);
  const wanted = start < 0 ? [] : matching.slice(start, start + query.limit);
  const page = wanted.slice(0, fitting(wanted.map(({ run }) => run.bytes)));
  const isLast = start < 0 || start + page.length >= matching.length;
  return {
    found: page.map(({ run }) => ({
      runId: run.runId,
      values: columns.map((of) => of(run) ?? null),
    })),
    nextToken: isLast ? undefined : tokenOf(page.at(-1)!.place, query),
    total: matching.length,
  };
}

/**
 * Whether one run fits a filter. Reads a metric's summaries of all runs, so it is for single runs.
 * @throws MosaicError `invalid_argument` for an invalid filter
 */
export function runFits(readers: Readers, row: RunRow, where: string): boolean {
  const run: RunOutline = { ...row, bytes: 0 };
  const expression = parseExpression(where);
  const lookups = new Map(
    [...columnsOf(expression)].map((name) => [name, lookupOf(readers, queryColumn(name, "param"))]),
  );
  return fits(expression, (name) => lookups.get(name)!(run), new Budget());
}

/** @throws MosaicError `invalid_argument` for an invalid filter */
export function checkFilter(where: string): void {
  for (const name of columnsOf(parseExpression(where))) queryColumn(name, "param");
}

/** The values of a parameter or metric by run id, without runs that have none. */
export function valuesByRun(
  { runs, records }: ValueReaders,
  column: Exclude<QueryColumn, { type: "run" }>,
): Map<string, Value> {
  if (column.type === "param") return parametersNamed({ runs, records }, column.name);
  const { aggregate } = column;
  const field = aggregate === "min_step"
    ? "minStep"
    : aggregate === "max_step"
    ? "maxStep"
    : aggregate;
  return new Map(
    records.seriesNamed(column.name).map((series) => [series.runId, series[field] ?? undefined]),
  );
}

/** Columns for which a run's outline suffices: they are read of very many runs. */
const OF_OUTLINES = [
  ...["run_id", "name", "state", "outcome", "reason", "attempt", "priority", "tags", "owner"],
  ...["submitted", "started", "finished", "elapsed"],
];

function lookupOf(readers: Readers, column: QueryColumn): Lookup {
  const { runs, records } = readers;
  if (column.type === "param" && column.name === ALL_PARAMETERS) {
    return ({ runId }) =>
      parametersOfRun({ runs, records }, runId).map(({ name, value }) => [name, value]);
  }
  if (column.type !== "run") {
    const values = valuesByRun(readers, column);
    return ({ runId }) => values.get(runId);
  }
  if (column.name === "reward") return rewardLookup(readers);
  if (column.name === "episodes") return ({ runId }) => records.summary(runId).episodes;
  if (column.name === "steps") return ({ runId }) => stepsReached(records.summary(runId));
  const { of } = column;
  const now = Date.now();
  if (OF_OUTLINES.includes(column.name)) {
    return (run) => valueOf(of, outlineJson(run) as RunJson, now);
  }
  return ({ runId }) => {
    const row = runs.known(runId);
    return row === undefined ? undefined : valueOf(of, runJson(readers.detail(row)), now);
  };
}

/** As `oneNumber`. Objectives and their series are read once for all runs. */
function rewardLookup({ runs, records, objectives }: Readers): Lookup {
  let own: Map<string, string> | undefined;
  const series = new Map<string, Map<string, number | null>>();
  const valuesOf = (chosen: string) => {
    let values = series.get(chosen);
    if (values === undefined) {
      const parsed = objectiveOf(chosen);
      const found = parsed === undefined ? [] : records.seriesNamed(parsed.name);
      series.set(
        chosen,
        values = new Map(
          found.map((one) => [one.runId, parsed === undefined ? null : one[parsed.value]]),
        ),
      );
    }
    return values;
  };
  return ({ runId, tags }) => {
    own ??= runs.objectives();
    const chosen = objectives.of(own.get(runId), tags);
    const { meanReward100, reportedReward } = records.summary(runId);
    const value = chosen === undefined ? undefined : { value: valuesOf(chosen).get(runId) };
    return oneNumber(value, meanReward100, reportedReward) ?? undefined;
  };
}

/** By the column, then newest first. */
function compare(a: Place, b: Place, descending: boolean): number {
  return byValue(a.key, b.key, descending) || b.createdAt - a.createdAt ||
    (a.runId < b.runId ? 1 : a.runId > b.runId ? -1 : 0);
}

function tokenOf({ key, createdAt, runId }: Place, { where, sort }: RunQuery): string {
  const bytes = new TextEncoder().encode(
    JSON.stringify([where, sort, createdAt, runId, ...(key === undefined ? [] : [key])]),
  );
  return `q.${bytes.toBase64({ alphabet: "base64url" })}`;
}

/** @throws MosaicError `invalid_argument` for a token that this query did not return */
function placeOf(token: string, { where, sort }: RunQuery): Place {
  try {
    const bytes = Uint8Array.fromBase64(token.slice(2), { alphabet: "base64url" });
    const [w, s, createdAt, runId, key] = JSON.parse(new TextDecoder().decode(bytes)) as [
      string,
      string,
      number,
      string,
      Value,
    ];
    if (token.startsWith("q.") && w === where && s === sort && typeof runId === "string") {
      return { key, createdAt, runId };
    }
  } catch {
    // The error below covers this.
  }
  throw new MosaicError(
    "invalid_argument",
    `page token ${JSON.stringify(token.slice(0, 100))} is not one that a page of this query gave`,
    {
      hint: "Ask for the next page with the same where and sort.",
    },
  );
}
