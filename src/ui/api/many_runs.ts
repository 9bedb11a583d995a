/**
 * Reads many runs for one request of the page; a thousand runs take a while, so other work runs in
 * between.
 */
import { parsedJson } from "../../base/text/json_text.ts";
import { MosaicError } from "../../base/errors.ts";
import { natural } from "../../base/text/natural_order.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import type { Core } from "../../dispatch/core/core.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { ReportOptions } from "../../runs/report/report.ts";
import { type Band, BANDS } from "../../telemetry/series/groups.ts";
import { pointsOrNone } from "./chart_series.ts";
import { type ComparedRun, type SeriesNames } from "./page_json.ts";
import { runJson } from "../../runs/fields/run_json.ts";
import { encodeSeries } from "./series_frame.ts";
import { sized } from "../http/sized_messages.ts";

const MOST_RUNS = 1000;
const MOST_NAMES = 24;
/** Bound on the buckets of one name, for all runs together: an answer holds them in memory. */
const MOST_BUCKETS = 400_000;
/** With more runs than this, series with a single point are sent by name only. */
const MOST_VALUED = 40;
const AT_ONCE_MS = 8;
/** Runs whose outlines are read in one go: a few milliseconds. */
const ROUGH_AT_ONCE = 50;

interface SeriesWanted {
  runs: string[];
  names: string[];
  from: number;
  to: number;
  /** Per run. */
  buckets: number;
  rough: boolean;
  /**
   * What the page has of each name and run: the first point of its last bucket, and the width of
   * buckets; null: nothing.
   */
  have: (readonly [from: number, width: number] | null)[][] | undefined;
}

/** @throws MosaicError `invalid_argument` */
function fieldsOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = parsedJson(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // The error below covers this.
  }
  throw new MosaicError("invalid_argument", "the body of the request must be a JSON object");
}

function textsOf(body: Record<string, unknown>, field: string, most: number): string[] {
  const value = body[field];
  if (!Array.isArray(value) || value.length === 0 || value.some((one) => typeof one !== "string")) {
    throw new MosaicError("invalid_argument", `${field} must be a list of texts that is not empty`);
  }
  if (value.length > most) {
    throw new MosaicError(
      "invalid_argument",
      `${field} has ${value.length} entries; at most ${most} go in one request`,
    );
  }
  return value;
}

function wholeOf(
  body: Record<string, unknown>,
  field: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const value = body[field] ?? fallback;
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) {
    return value as number;
  }
  throw new MosaicError(
    "invalid_argument",
    `${field} is ${JSON.stringify(value)?.slice(0, 100)}; must be an integer from ${min} to ${max}`,
  );
}

/** The runs, and the number of buckets. */
function sampleWanted(
  body: Record<string, unknown>,
): Pick<SeriesWanted, "runs" | "buckets" | "rough"> {
  const runs = textsOf(body, "runs", MOST_RUNS);
  const most = Math.min(4000, Math.floor(MOST_BUCKETS / runs.length));
  return {
    runs,
    buckets: wholeOf(body, "buckets", Math.min(500, most), 1, most),
    rough: body["rough"] === true,
  };
}

/** @throws MosaicError `invalid_argument` that names the field */
export function seriesWanted(text: string): SeriesWanted {
  const body = fieldsOf(text);
  return {
    ...sampleWanted(body),
    names: textsOf(body, "names", MOST_NAMES),
    from: wholeOf(body, "from", 0, 0, Number.MAX_SAFE_INTEGER),
    to: wholeOf(body, "to", 0, 0, Number.MAX_SAFE_INTEGER),
    have: haveOf(body["have"]),
  };
}

function haveOf(given: unknown): SeriesWanted["have"] {
  if (given === undefined) return undefined;
  const isPair = (one: unknown) =>
    one === null ||
    (Array.isArray(one) && one.length === 2 && one.every((n) => Number.isSafeInteger(n) && n >= 1));
  if (Array.isArray(given) && given.every((of) => Array.isArray(of) && of.every(isPair))) {
    return given;
  }
  throw new MosaicError(
    "invalid_argument",
    "have must be, for each name, a list of [from, width] or null for each run",
  );
}

/** What follows what the page has, if that is possible and less than the whole. */
function endOrAll(
  core: Core,
  runId: string,
  name: string,
  { from, to, buckets }: SeriesWanted,
  have: readonly [number, number] | null,
) {
  if (have !== null) {
    try {
      const end = core.records.seriesTail(runId, name, ...have);
      if (end !== undefined && end.length > 0 && end.length < buckets) return end;
    } catch (error) {
      if (!(error instanceof MosaicError && error.code === "not_found")) throw error;
    }
  }
  return pointsOrNone(core.records, runId, name, from, to, buckets);
}

type BeginWanted = Omit<SeriesWanted, "names" | "from" | "to" | "have"> & { charts: number };

/** @throws MosaicError `invalid_argument` that names the field */
export function beginWanted(text: string): BeginWanted {
  const body = fieldsOf(text);
  return { ...sampleWanted(body), charts: wholeOf(body, "charts", 6, 1, MOST_NAMES) };
}

/** More would take minutes; `mosaic report` accepts any number. */
const MOST_REPORTED = 100;

export interface ReportWanted {
  runs: string[];
  options: ReportOptions;
}

/** @throws MosaicError `invalid_argument` that names the field */
export function reportWanted(text: string): ReportWanted {
  const body = fieldsOf(text);
  const runs = textsOf(body, "runs", MOST_REPORTED);
  const band = body["band"] ?? "sd";
  if (typeof band !== "string" || !Object.hasOwn(BANDS, band)) {
    throw new MosaicError(
      "invalid_argument",
      `band must be one of ${Object.keys(BANDS).join(", ")}`,
    );
  }
  const on = (name: string) => body[name] === true;
  const groupBy = body["group_by"];
  const options: ReportOptions = {
    band: band as Band,
    ...{ log: on("log"), time: on("time"), overwritten: on("overwritten") },
    metrics: body["metrics"] === undefined ? undefined : textsOf(body, "metrics", MOST_NAMES),
    groupBy: typeof groupBy === "string" && groupBy !== "" ? groupBy : undefined,
  };
  return { runs, options };
}

export function runsWanted(text: string): string[] {
  return textsOf(fieldsOf(text), "runs", MOST_RUNS);
}

/** Yields to other work if that has waited long. */
class Turns {
  #since = performance.now();

  async take(): Promise<void> {
    if (performance.now() - this.#since < AT_ONCE_MS) return;
    await yieldToOthers();
    this.#since = performance.now();
  }
}

/**
 * Name after name, as `decodeSeries` reads it. A run that lacks the name, or was deleted, has no
 * buckets.
 */
export async function* seriesOfMany(
  core: Core,
  wanted: SeriesWanted,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { runs, names, from, to, buckets, rough } = wanted;
  const turns = new Turns();
  for (const [n, name] of names.entries()) {
    const found = [];
    for (let r = 0; r < runs.length; r += rough ? ROUGH_AT_ONCE : 1) {
      const some = runs.slice(r, r + (rough ? ROUGH_AT_ONCE : 1));
      found.push(
        ...rough
          ? core.records.outlines(some, name, from, to, buckets)
          : some.map((runId, i) =>
            endOrAll(core, runId, name, wanted, wanted.have?.[n]?.[r + i] ?? null)
          ),
      );
      await turns.take();
      if (signal.aborted) return;
    }
    yield encodeSeries(found);
  }
}

/**
 * The first data of a comparison, in the order in which the page needs them: the runs and the names
 * of their series as JSON, then the series of the first charts, as `seriesOfMany` returns them.
 * Each is a message of its own.
 */
export async function* comparisonBegins(
  core: Core,
  { charts, ...wanted }: BeginWanted,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const json = (value: unknown) => sized(new TextEncoder().encode(JSON.stringify(value)));
  yield json({ runs: await comparedRuns(core, wanted.runs) });
  const found = await namesOfMany(core, wanted.runs);
  yield json(found);
  const series = seriesOfMany(
    core,
    { ...wanted, names: found.names.slice(0, charts), from: 0, to: 0, have: undefined },
    signal,
  );
  for await (const one of series) yield sized(one);
}

const FIRST_NAMES = ["episode_reward", "episode_length", "reward"];

/** The usual ones first, then those without a section, then by name, numbers by size. */
function byImportance(a: string, b: string): number {
  const rank = (name: string) =>
    FIRST_NAMES.includes(name)
      ? FIRST_NAMES.indexOf(name)
      : FIRST_NAMES.length + Number(name.includes("/"));
  return rank(a) - rank(b) || natural(a, b);
}

/**
 * Names of series that any of the runs has, in the order of their charts; series with at most one
 * point per run are separate.
 */
export async function namesOfMany(core: Core, runs: readonly string[]): Promise<SeriesNames> {
  const answer: SeriesNames = { names: [], once: [] };
  const turns = new Turns();
  const valued = runs.length <= MOST_VALUED;
  for (const found of core.records.namesOfMany(runs)) {
    await turns.take();
    if (found === undefined) continue;
    const { name, once } = found;
    // Each attempt reports its settings again.
    if (once || name.startsWith("config.")) {
      answer.once.push({
        name,
        values: valued ? runs.map(() => null) : [],
      });
    } else answer.names.push(name);
  }
  answer.names.sort(byImportance);
  if (!valued || answer.once.length === 0) return answer;
  const byName = new Map(answer.once.map(({ name, values }) => [name, values]));
  for (const [r, runId] of runs.entries()) {
    for (const { name, last } of core.records.listSeries(runId)) {
      byName.get(name)?.splice(r, 1, last);
    }
    await turns.take();
  }
  return answer;
}

/** The runs that still exist, with their parameters. */
export async function comparedRuns(core: Core, ids: readonly string[]): Promise<ComparedRun[]> {
  const runs: ComparedRun[] = [];
  const turns = new Turns();
  for (const id of ids) {
    const row = runOrNone(core, id);
    if (row !== undefined) {
      runs.push({ ...runJson(core.detail(row)), parameters: core.parameters(row.runId) });
    }
    await turns.take();
  }
  return runs;
}

function runOrNone(core: Core, id: string): RunRow | undefined {
  try {
    return core.runs.get(id) ?? core.runs.resolve(id);
  } catch (error) {
    if (error instanceof MosaicError && error.code === "not_found") return undefined;
    throw error;
  }
}
