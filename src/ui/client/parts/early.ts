/**
 * Requests that follow from the address alone, sent while the page's program is still loading. For
 * a thousand runs the daemon answers before the program could have asked.
 */

import type { SeriesNames } from "../../api/page_json.ts";
import { sizedMessages } from "../../http/sized_messages.ts";

/** Bound on runs per request. */
export const MOST_RUNS = 1000;

/** More lines than this are a crowd: thin, without bands, and with a name only at the cursor. */
const MANY_LINES = 40;
export const isCrowd = (lines: ArrayLike<unknown>): boolean => lines.length > MANY_LINES;

/**
 * Requests for series at the same time: while the page draws charts, the daemon reads the next. A
 * browser has six connections.
 */
export const AT_ONCE = 4;
/** About as many as fit on a normal screen. */
const FIRST_CHARTS = 6;
/** Buckets of one line. */
export const MOST_BUCKETS = 1000;
/** Buckets of all lines of a crowd. */
const CROWD_BUCKETS = 40_000;

/** The request for a crowd. */
export function crowdWanted(runs: string[], names: string[], all = CROWD_BUCKETS) {
  return {
    runs,
    names,
    buckets: Math.min(MOST_BUCKETS, Math.floor(all / runs.length)),
    rough: true,
  };
}

/** Settings of the charts in the address. */
export const IN_ADDRESS = [
  ...[
    "x",
    "band",
    "smoothing",
    "log",
    "logx",
    "overwritten",
    "metrics",
    "zoom",
    "pin",
    "fold",
    "hide",
    "y",
    "trim",
    "own",
    "without",
    "expr",
  ],
];

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
  if (["metrics", "zoom", "pin", "fold", "expr", "without"].some((name) => query.has(name))) {
    return false;
  }
  return IN_ADDRESS.some((name) => query.has(name)) ||
    ["mosaic-pinned", "mosaic-folded", "mosaic-without"].every((key) =>
      stored<string[]>(key, []).length === 0
    );
}

/** Shared by two scripts, which have no module in common. */
const requests =
  ((globalThis as { mosaicEarly?: Map<string, Promise<Response>> }).mosaicEarly ??= new Map());
const keyOf = (path: string, body: string) => `${path} ${body}`;

/** The chosen runs of the address. */
export function runsOfAddress(): string[] {
  return (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) =>
    id !== ""
  );
}

export function requestEarly(): void {
  const runs = ["/", "/compare"].includes(location.pathname)
    ? runsOfAddress().slice(0, MOST_RUNS)
    : [];
  if (runs.length === 0) return;
  const token = document.querySelector<HTMLMetaElement>("meta[name=mosaic-token]")!.content;
  const headers = { "content-type": "application/json", "x-mosaic-token": token };
  const post = (path: string, wanted: unknown) =>
    fetch(path, { method: "POST", headers, body: JSON.stringify(wanted) });
  if (isCrowd(runs) && inOrder()) {
    const { buckets, rough } = crowdWanted(runs, []);
    expectBegin(runs, post("/api/compared/first", { runs, buckets, rough, charts: FIRST_CHARTS }));
    return;
  }
  for (const path of [COMPARED, NAMES]) expect(path, { runs }, post(path, { runs }));
}

const COMPARED = "/api/compared";
const NAMES = "/api/series/names";

function expect(path: string, wanted: unknown, answer: Promise<Response>): void {
  // Whoever takes it handles the error; if nobody does, it can be ignored.
  answer.catch(() => {});
  requests.set(keyOf(path, JSON.stringify(wanted)), answer);
}

/**
 * Runs, names and the series of the first charts come in one answer, which can be requested before
 * any name is known, so that the daemon reads them while the page's program starts. The program
 * finds them as answers to its own requests.
 */
async function expectBegin(runs: string[], answer: Promise<Response>): Promise<void> {
  const awaited: ((bytes: Uint8Array<ArrayBuffer>) => void)[] = [];
  const failed = new AbortController();
  const expectNext = (path: string, wanted: unknown) =>
    expect(
      path,
      wanted,
      new Promise((resolve, reject) => {
        awaited.push((bytes) => resolve(new Response(bytes)));
        failed.signal.addEventListener("abort", () => reject(failed.signal.reason));
      }),
    );
  expectNext(COMPARED, { runs });
  expectNext(NAMES, { runs });
  try {
    const { ok, body, status } = await answer;
    if (!ok) throw new Error(`the daemon answered ${status}`);
    let nth = 0;
    for await (const message of sizedMessages(body!)) {
      const bytes = message.slice();
      if (nth === 1) {
        const { names } = JSON.parse(new TextDecoder().decode(bytes)) as SeriesNames;
        for (const name of names.slice(0, FIRST_CHARTS)) {
          expectNext("/api/series", crowdWanted(runs, [name]));
        }
      }
      awaited[nth++]!(bytes);
    }
    if (nth < awaited.length) throw new Error("the daemon's answer was cut short");
  } catch (error) {
    // The program asks again for what has not arrived, and reports errors.
    failed.abort(error);
  }
}

/** The answer to this request, if it was requested early and has not been taken. */
export function takeEarly(path: string, body: unknown): Promise<Response> | undefined {
  if (typeof body !== "string") return undefined;
  const key = keyOf(path, body);
  const answer = requests.get(key);
  requests.delete(key);
  return answer;
}
