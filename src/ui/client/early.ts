/**
 * Requests that the address alone tells, asked while the page's program is still loading. Of a thousand runs the daemon
 * then answers before the program can ask.
 */

import type { SeriesNames } from "../page_json.ts";

/** Runs that one request may name. */
export const MOST_RUNS = 1000;

/** More lines than this are a crowd: thin, without bands, and a name only where one points. */
const MANY_LINES = 40;
export const isCrowd = (lines: ArrayLike<unknown>): boolean => lines.length > MANY_LINES;

/** Requests for series at the same time: while the page draws charts, the daemon reads the next. A browser has six connections. */
export const AT_ONCE = 4;
/** About as many as one sees on a screen of usual size: the daemon reads them while the page's program begins. */
const FIRST_CHARTS = 6;
/** Buckets of one line. */
export const MOST_BUCKETS = 1000;
/** Buckets of all lines of a crowd. */
const CROWD_BUCKETS = 40_000;

/** What is asked for a crowd. */
export function crowdWanted(runs: string[], names: string[], all = CROWD_BUCKETS) {
  return { runs, names, buckets: Math.min(MOST_BUCKETS, Math.floor(all / runs.length)), rough: true };
}

/** What of the charts is in the address. */
export const IN_ADDRESS = ["x", "band", "smoothing", "log", "overwritten", "metrics", "zoom", "pin", "fold"];

export function stored<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Whether the first charts are those of the first names. */
function inOrder(): boolean {
  const query = new URLSearchParams(location.search);
  if (["metrics", "zoom", "pin", "fold"].some((name) => query.has(name))) return false;
  return IN_ADDRESS.some((name) => query.has(name)) ||
    ["mosaic-pinned", "mosaic-folded"].every((key) => stored<string[]>(key, []).length === 0);
}

/** Shared by two scripts, which have no module in common. */
const asked = ((globalThis as { mosaicEarly?: Map<string, Promise<Response>> }).mosaicEarly ??= new Map());
const keyOf = (path: string, body: string) => `${path} ${body}`;

/** The runs that the view of comparison is of. */
export function runsOfAddress(): string[] {
  return (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) => id !== "");
}

export function askEarly(): void {
  const runs = location.pathname === "/compare" ? runsOfAddress().slice(0, MOST_RUNS) : [];
  if (runs.length === 0) return;
  const token = document.querySelector<HTMLMetaElement>("meta[name=mosaic-token]")!.content;
  const headers = { "content-type": "application/json", "x-mosaic-token": token };
  const ask = (path: string, wanted: unknown) => {
    const body = JSON.stringify(wanted);
    const answer = fetch(path, { method: "POST", headers, body });
    // Who takes it hears of it; if nobody does, nobody has to.
    answer.catch(() => {});
    asked.set(keyOf(path, body), answer);
    return answer;
  };
  const names = ask("/api/series/names", { runs });
  ask("/api/compared", { runs });
  if (!isCrowd(runs) || !inOrder()) return;
  // The first charts, of which the names come first.
  names.then(async (answer) => {
    if (!answer.ok) return;
    const { names } = await answer.clone().json() as SeriesNames;
    for (const name of names.slice(0, FIRST_CHARTS)) ask("/api/series", crowdWanted(runs, [name]));
  }).catch(() => {});
}

/** The answer to this request if it was asked early and has not been taken. */
export function takeEarly(path: string, body: unknown): Promise<Response> | undefined {
  if (typeof body !== "string") return undefined;
  const key = keyOf(path, body);
  const answer = asked.get(key);
  asked.delete(key);
  return answer;
}
