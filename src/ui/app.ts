/** The page as a Hono application: routes only; what they answer is made in the files beside this one. */
import { type Context, Hono } from "hono";
import { STANDARD_BOUNDS } from "../base/load_limits.ts";
import type { Core } from "../dispatch/core/core.ts";
import type { RunRow } from "../registry/types.ts";
import { TELEMETRY_KINDS, type TelemetryKind } from "../telemetry/record_fields.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { metricsOf } from "../observability/metrics.ts";
import { PROMETHEUS_TYPE, prometheusText } from "../observability/prometheus_text.ts";
import { type Readiness, readinessOf } from "../observability/readiness.ts";
import { applyToMany, applyToRun } from "./actions.ts";
import { errorBody, listOf, RequestRefused, wholeNumber } from "./answers.ts";
import { artifactResponse } from "./artifact_file.ts";
import { asset, shell } from "./assets.ts";
import { columns } from "./chart_series.ts";
import { EventStreams } from "./event_stream.ts";
import { evalSummary } from "./eval_summary.ts";
import { framesOf } from "./pictures.ts";
import { guard, type PageEnv, type RequestPeer, safeHeaders } from "./guard.ts";
import type { Authenticate } from "./viewer.ts";
import { allRunsLive, counted, eventsLive, recordsLive, runLive, Ticker } from "./live.ts";
import { LOG_STREAMS, logLive, type LogStream, readLog, readLogBefore, searchLog } from "./run_log.ts";
import { BODY_LIMITS, type BodyLimits, textOf } from "./request.ts";
import { recordAt, recordsAfter } from "./public_records.ts";
import { listRuns } from "./runs_list.ts";
import { presentConfig } from "../config/secrets.ts";
import { eventLine, heads, hostLine, runLine, runPage } from "./page_json.ts";

export interface AppOptions {
  log: Logger;
  /** The host we listen on: requests must name it, a loopback name, or one of `hosts`. */
  bound: string;
  hosts?: readonly string[];
  authenticate?: Authenticate;
  /** Answers what belongs to logging in and out; undefined for everything else. */
  logIn?: (request: Request, peer: string) => Promise<Response | undefined>;
  /** What a request's body may be. */
  body?: Partial<BodyLimits>;
  /** Milliseconds between two ticks of a live stream; 1000. */
  tickMs?: number;
  /** Live connections at the same time. */
  maxStreams?: number;
  /** Lines a second that one follower of a log gets. */
  logLines?: number;
  /** What `/readyz` says; without it, what can be known without the daemon around the core. */
  readiness?: () => Readiness;
}

export interface PageApp {
  /** @param from whose request it is */
  fetch(request: Request, from?: RequestPeer): Response | Promise<Response>;
  /** What a browser's calls of the API must carry, as changes by the page do. */
  readonly token: string;
  stop(): void;
}

const RECORDS_LIMIT = 1000;
const SERIES_LIMIT = 24;
const BUCKETS_LIMIT = 4000;
const JSON_TYPE = { "content-type": "application/json" };

export function createApp(core: Core, options: AppOptions): PageApp {
  const token = crypto.randomUUID();
  const tickMs = options.tickMs ?? 1000;
  const streams = new EventStreams(options.maxStreams ?? STANDARD_BOUNDS.maxPageStreams);
  const logLines = options.logLines ?? STANDARD_BOUNDS.logLines;
  const ticker = new Ticker(core, tickMs);
  const readiness = options.readiness ?? (() => readinessOf(core, { accepting: () => true }));
  const body: BodyLimits = { ...BODY_LIMITS, ...options.body };
  const app = new Hono<PageEnv>();
  type Ctx = Context<PageEnv>;

  /** To look at a run, its name, the beginning of its id or "@last" will do; to change it, only its id. */
  const runOf = (c: Ctx): RunRow => core.runs.resolve(c.req.param("id") ?? "");
  const kindOf = (c: Ctx): TelemetryKind => {
    const kind = c.req.param("kind") as TelemetryKind;
    if (!TELEMETRY_KINDS.includes(kind)) throw new MosaicError("not_found", `there are no records called "${kind}"`);
    return kind;
  };
  const streamOf = (c: Ctx): LogStream => {
    const stream = c.req.param("stream") as LogStream;
    if (!LOG_STREAMS.includes(stream)) throw new MosaicError("not_found", `no log "${stream}"`);
    return stream;
  };
  /** Where a live stream goes on: after the last event the browser saw, else after `since`, else at `fallback`. */
  const sinceOf = (c: Ctx, fallback: number): number =>
    wholeNumber("since", c.req.header("last-event-id") || c.req.query("since"), fallback);

  const eventHead = () => core.runs.eventHead();

  app.use(safeHeaders);
  app.use(guard({
    bound: options.bound,
    hosts: options.hosts ?? [],
    token,
    authenticate: options.authenticate,
    logIn: options.logIn,
    body,
  }));
  app.use("/api/*", async (c, next) => {
    await next();
    if (!c.res.headers.has("cache-control")) c.res.headers.set("cache-control", "no-store");
  });
  app.onError((error, c) => {
    const { status, body } = errorBody(error);
    // The rest of a body that is not read must not hold the connection.
    if (error instanceof RequestRefused) c.header("connection", "close");
    if (error instanceof MosaicError && error.retryAfterMs !== undefined) {
      c.header("retry-after", String(Math.ceil(error.retryAfterMs / 1000)));
    }
    if (status === 500) options.log.error({ err: messageOf(error), path: c.req.path }, "page request failed");
    return c.json(body, status);
  });
  app.notFound((c) => c.json({ error: { code: "not_found", message: `there is nothing at ${c.req.path}` } }, 404));

  app.get("/healthz", (c) => c.json({ ok: true }));
  app.get("/readyz", (c) => {
    const state = readiness();
    return c.json(state, state.ready ? 200 : 503);
  });
  app.get("/metrics", (c) => c.body(prometheusText(metricsOf(core)), 200, { "content-type": PROMETHEUS_TYPE }));

  app.get("/api/session", (c) =>
    c.json({
      token,
      name: c.get("identity").name,
      read_only: c.get("identity").readOnly,
      version: core.version,
      started_at: core.startedAt,
    }));
  app.get("/api/host", (c) => c.json(hostLine(core.host())));
  app.get("/api/live", (c) => {
    const since = sinceOf(c, core.runs.eventHead());
    return streams.respond((signal) =>
      counted(core, { stream: "event_log", since, head: eventHead }, allRunsLive(core, ticker, since, tickMs, signal))
    );
  });
  app.get("/api/events", (c) => {
    const rows = core.runs.eventsSince(wholeNumber("since", c.req.query("since"), 0), {
      limit: wholeNumber("limit", c.req.query("limit"), 100, 1, RECORDS_LIMIT),
      ...(c.req.query("run") ? { runId: c.req.query("run")! } : {}),
    });
    return c.json({ events: rows.map(eventLine), head: core.runs.eventHead() });
  });
  app.get("/api/events/live", (c) => {
    const since = sinceOf(c, core.runs.eventHead());
    return streams.respond((signal) =>
      counted(core, { stream: "event_log", since, head: eventHead }, eventsLive(core, since, signal))
    );
  });

  app.get("/api/runs", async (c) => {
    if (c.req.query("ids") === undefined) {
      // The head is read first: a change during the listing is then sent again rather than missed.
      const head = core.runs.eventHead();
      return c.json({ ...await listRuns(core, c.req.query()), head });
    }
    const rows = listOf(c.req.query("ids")).slice(0, 200).map((id) => core.runs.get(id));
    return c.json({ runs: rows.filter((r) => r !== undefined).map((r) => runLine(core.detail(r))) });
  });
  app.post(
    "/api/runs/actions",
    async (c) => c.json(await applyToMany(core, await textOf(c.req.raw, body), options.log)),
  );
  app.get("/api/runs/:id", (c) => c.json({ ...runPage(core, core.detail(runOf(c))), head: core.runs.eventHead() }));
  app.get("/api/runs/:id/live", (c) => {
    const { runId } = runOf(c);
    const since = sinceOf(c, core.runs.eventHead());
    return streams.respond((signal) =>
      counted(core, { stream: "run", since }, runLive(core, runId, since, tickMs, signal))
    );
  });
  app.get("/api/runs/:id/config", (c) => {
    const reveal = c.req.query("reveal") === "1";
    if (reveal && c.get("identity").readOnly) {
      throw new MosaicError("permission_denied", "secrets of a config are shown only to the admin role");
    }
    return c.json(presentConfig(runOf(c).configJson, reveal));
  });
  app.get("/api/runs/:id/series", (c) => {
    const { runId } = runOf(c);
    const names = c.req.queries("name");
    if (names === undefined) return c.json({ series: core.records.listSeries(runId) });
    const from = wholeNumber("from", c.req.query("from"), 0);
    const to = wholeNumber("to", c.req.query("to"), Number.MAX_SAFE_INTEGER);
    const buckets = wholeNumber("buckets", c.req.query("buckets"), 500, 1, BUCKETS_LIMIT);
    return c.json({
      series: names.slice(0, SERIES_LIMIT).map((n) => columns(core.records, runId, n, from, to, buckets)),
    });
  });
  app.get("/api/runs/:id/eval", async (c) => c.json({ summary: await evalSummary(core.detail(runOf(c))) }));
  app.get("/api/runs/:id/frames", (c) => {
    const { runId } = runOf(c);
    return c.json(framesOf(
      core,
      runId,
      wholeNumber("since", c.req.query("since"), 0),
      wholeNumber("limit", c.req.query("limit"), 32, 1, 256),
    ));
  });
  app.get("/api/runs/:id/:kind/:seq{[0-9]+}", (c) => {
    const { runId } = runOf(c);
    const kind = kindOf(c);
    const seq = wholeNumber("seq", c.req.param("seq"), 0, 1);
    const json = recordAt(core.records, runId, kind, seq);
    if (json === undefined) throw new MosaicError("not_found", `the run has none of ${kind} with seq ${seq}`);
    return c.body(json, 200, JSON_TYPE);
  });
  app.get("/api/runs/:id/logs/:stream", async (c) => {
    const row = runOf(c);
    const stream = streamOf(c);
    const { before, q } = c.req.query();
    if (q) {
      const from = wholeNumber("from", c.req.query("from"), 0);
      return c.json(await searchLog(core, row, stream, q.slice(0, 500), from, 500));
    }
    if (before !== undefined) return c.json(await readLogBefore(core, row, stream, wholeNumber("before", before, 0)));
    const from = wholeNumber("from", c.req.query("from"), 0, Number.MIN_SAFE_INTEGER);
    return c.json(await readLog(core, row, stream, from));
  });
  app.get("/api/runs/:id/logs/:stream/live", (c) => {
    const row = runOf(c);
    const stream = streamOf(c);
    const [attempt, offset] = (c.req.header("last-event-id") ?? "").split(":");
    const since = {
      attempt: wholeNumber("attempt", attempt, row.attempt),
      offset: wholeNumber("offset", offset ?? c.req.query("from"), 0),
    };
    return streams.respond((signal) =>
      counted(
        core,
        { stream: "logs" },
        logLive(core, row.runId, stream, since, logLines, Math.min(tickMs, 500), signal),
      )
    );
  });
  app.get(
    "/api/runs/:id/artifacts/:path{.+}",
    async (c) => await artifactResponse(core, core.detail(runOf(c)), c.req.param("path")),
  );
  app.post("/api/runs/:id/:action", async (c) => {
    const row = core.runs.require(c.req.param("id"));
    return c.json(await applyToRun(core, row.runId, c.req.param("action"), await textOf(c.req.raw, body), options.log));
  });
  app.get("/api/runs/:id/:kind", (c) => {
    const { runId } = runOf(c);
    const kind = kindOf(c);
    const since = wholeNumber("since", c.req.query("since"), 0);
    const limit = wholeNumber("limit", c.req.query("limit"), 100, 1, RECORDS_LIMIT);
    const { json } = recordsAfter(core.records, runId, kind, since, limit);
    return c.body(`{"${kind}":${json},"heads":${JSON.stringify(heads(core, runId))}}`, 200, JSON_TYPE);
  });
  app.get("/api/runs/:id/:kind/live", (c) => {
    const { runId } = runOf(c);
    const kind = kindOf(c);
    const since = sinceOf(c, 0);
    const head = () => core.records.head(runId, kind);
    return streams.respond((signal) =>
      counted(core, { stream: kind, since, head }, recordsLive(core, runId, kind, since, signal))
    );
  });

  app.get("/assets/:name", (c) => asset(c.req.param("name"), c.req.raw.headers));
  for (const path of ["/", "/runs/:id", "/compare"]) {
    app.get(path, (c) => c.html(shell(token, c.get("identity"), core.version), 200, { "cache-control": "no-store" }));
  }

  return {
    token,
    fetch: (request, from = { peer: "", owner: false, bySocket: false }) => app.fetch(request, from),
    stop() {
      streams.stop();
    },
  };
}
