/** Requests to the daemon, the live stream, and the state of the connection. */
import { type ClientResponse, hc } from "npm:hono@4.13.19/client";
import type { PageApi } from "../../api/api.ts";
import { decodeSeries } from "../../api/series_frame.ts";
import { takeEarly } from "./early.ts";
import type { ColumnNames, ComparedRun, RunColumn, SeriesColumns } from "../../api/page_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";

export interface Connection {
  state: "connecting" | "live" | "down";
  /** Time of the next try, by this machine's clock. */
  retryAt: number;
}

const RETRY_MS = [500, 1000, 2000, 3000, 5000];
/**
 * The daemon sends a tick every second: after this long without one, the connection counts as lost.
 */
const SILENCE_MS = 10_000;

const meta = (name: string) =>
  document.querySelector<HTMLMetaElement>(`meta[name=mosaic-${name}]`)!;
let token = meta("token").content;
export const readOnly = meta("identity").dataset.readOnly === "true";
/** Deleted runs stay in the trash for a time. */
export const keepsDeleted = meta("identity").dataset.keepsDeleted === "true";

/** Daemon's clock minus this machine's, so that ages are right even if this clock is wrong. */
let skew = 0;
export const now = (): number => Date.now() + skew;
export function heardTime(at: number): void {
  skew = at - Date.now();
}

let connection: Connection = { state: "connecting", retryAt: 0 };
let watcher: (c: Connection) => void = () => {};
/** Calls `watch` with the current state, and after every change. */
export function onConnection(watch: (c: Connection) => void): void {
  watcher = watch;
  watch(connection);
}
function setConnection(next: Connection): void {
  connection = next;
  watcher(next);
}

/** A refusal of the daemon, with its own message. */
export class Refused extends Error {
  constructor(readonly status: number, message: string, hint?: string) {
    super(hint ? `${message} (${hint})` : message);
  }
}

/** @throws Unreachable in place of the browser's "Failed to fetch" */
async function reached(input: RequestInfo | URL, init: RequestInit): Promise<Response> {
  try {
    return await fetch(input, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Unreachable();
  }
}

/** The connection to the daemon has failed; the page shows its state and tries again. */
export class Unreachable extends Error {
  constructor() {
    super(
      "The daemon cannot be reached. Nothing was changed; try again when the page is live again.",
    );
  }
}

const AGAIN_MS = 1000;

/**
 * Reads, and again while the daemon cannot be reached: a view that an outage met is not blank after
 * it. @returns ends it
 */
export function untilRead(read: () => Promise<void>, failed: (error: unknown) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let ended = false;
  const once = () =>
    read().catch((error) => {
      if (ended) return;
      if (error instanceof Unreachable) timer = setTimeout(once, AGAIN_MS);
      else failed(error);
    });
  once();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/**
 * If the daemon was restarted under an open page, the page's token is outdated: then a change is
 * sent once more.
 */
async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  if (init.method !== "POST") return await reached(input, init);
  const once = () => {
    const headers = new Headers(init.headers);
    headers.set("x-mosaic-token", token);
    return reached(input, { ...init, headers });
  };
  const early = await takeEarly(new URL(input.toString(), location.href).pathname, init.body)
    ?.catch(() => undefined);
  init.signal?.throwIfAborted();
  const first = early ?? await once();
  if (first.status !== 403) return first;
  const before = token;
  await session();
  return token === before ? first : await once();
}

/** The API, with the types of its routes (../api.ts). */
export const api = hc<PageApi>("/api", { fetch: send });

/** The answer of a call. @throws Refused */
export async function answer<R extends ClientResponse<unknown>>(
  request: Promise<R>,
): Promise<R extends ClientResponse<infer T> ? T : never> {
  const response = await request;
  // deno-lint-ignore no-explicit-any
  const body: any = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const { message = `the daemon answered ${response.status}`, hint } = body.error ?? {};
  throw new Refused(response.status, message, hint);
}

async function session() {
  const s = await answer(api.session.$get());
  token = s.token;
  return s;
}

/** The API's routes for one run. */
export const runApi = api.runs[":id"];
export const param = (id: string) => ({ param: { id: encodeURIComponent(id) } });

export function runPath(id: string, rest = ""): string {
  return `/api/runs/${encodeURIComponent(id)}${rest}`;
}

/** A page of the list of runs. */
export interface RunList {
  runs: RunJson[];
  total: number;
  next_token: string | null;
  /** Seq of the event log after which `live` continues. */
  head: number;
}
export async function listRuns(
  query: Parameters<typeof api.runs.$get>[0]["query"],
): Promise<RunList> {
  return await answer(api.runs.$get({ query })) as unknown as RunList;
}
export async function runsByIds(ids: string[]): Promise<RunJson[]> {
  return (await answer(api.runs.$get({ query: { ids: ids.join() } }))).runs;
}

/** Further columns of the table of runs. */
export async function readColumns(id: string[]): Promise<RunColumn[]> {
  if (id.length === 0) return [];
  return (await answer(api.columns.$get({ query: { id } })) as { columns: RunColumn[] }).columns;
}
export async function columnNames(): Promise<ColumnNames> {
  return await answer(api.columns.$get({ query: {} })) as ColumnNames;
}

/** A part of a log, or its lines that contain `q`. */
export async function logOf<T>(
  id: string,
  stream: string,
  query: Record<string, string | number>,
): Promise<T> {
  const texts = Object.fromEntries(Object.entries(query).map(([k, v]) => [k, String(v)]));
  return await answer(
    runApi.logs[":stream"].$get({ param: { ...param(id).param, stream }, query: texts }),
  ) as T;
}

/** The first point of the last bucket that the page has, and the width of its buckets. */
export type Have = [from: number, width: number];

/** Buckets of series of runs. @returns for each name those of each run */
export async function seriesOf(
  wanted: {
    runs: string[];
    names: string[];
    buckets: number;
    rough: boolean;
    from?: number;
    to?: number;
    /** As of `SeriesWanted` in ../../api/many_runs.ts. */
    have?: (Have | null)[][];
  },
  signal: AbortSignal,
): Promise<SeriesColumns[][]> {
  const response = await api.series.$post({ json: wanted }, { init: { signal } });
  if (!response.ok) await answer(Promise.resolve(response));
  return decodeSeries(await response.arrayBuffer(), wanted.names, wanted.runs.length);
}

/** The runs of these ids that exist. */
export async function comparedRuns(runs: string[]): Promise<ComparedRun[]> {
  return (await answer(api.compared.$post({ json: { runs } })) as { runs: ComparedRun[] }).runs;
}

/**
 * A live stream that goes on after its last event whenever the connection was lost, and says how it
 * stands.
 *
 * @param handlers by event name; `restarted` when another daemon process answers
 * @returns closes it
 */
export function live(
  path: string,
  since: number,
  // deno-lint-ignore no-explicit-any
  handlers: Record<string, (data: any) => void>,
): () => void {
  let last = String(since);
  let heard = Date.now();
  let failures = 0;
  let closed = false;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let startedAt: number | undefined;

  const open = async () => {
    clearTimeout(timer);
    source?.close();
    if (closed || document.hidden) return;
    heard = Date.now();
    try {
      const s = await session();
      if (closed) return;
      const another = startedAt !== undefined && s.started_at !== startedAt;
      startedAt = s.started_at;
      if (another) handlers.restarted?.(s);
    } catch {
      return lost();
    }
    const opened = new EventSource(`${path}?since=${last}`);
    source = opened;
    for (const [name, handle] of Object.entries(handlers)) {
      opened.addEventListener(name, (event) => {
        if (source !== opened) return;
        const { data, lastEventId } = event as MessageEvent<string>;
        if (lastEventId !== "") last = lastEventId;
        heard = Date.now();
        failures = 0;
        if (connection.state !== "live") setConnection({ state: "live", retryAt: 0 });
        handle(JSON.parse(data));
      });
    }
    opened.onerror = () => source === opened && lost();
  };
  const lost = () => {
    source?.close();
    source = undefined;
    if (closed) return;
    const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? 5000;
    setConnection({ state: "down", retryAt: Date.now() + wait });
    clearTimeout(timer);
    timer = setTimeout(open, wait);
  };
  const watchdog = setInterval(() => {
    if (source !== undefined && Date.now() - heard > SILENCE_MS) lost();
  }, 1000);
  const onVisibility = () => {
    if (!document.hidden) open();
    else {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    }
  };
  document.addEventListener("visibilitychange", onVisibility);
  setConnection({ state: "connecting", retryAt: 0 });
  open();
  return () => {
    closed = true;
    clearTimeout(timer);
    clearInterval(watchdog);
    document.removeEventListener("visibilitychange", onVisibility);
    source?.close();
  };
}
