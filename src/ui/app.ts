/** The page as a Hono application: who may ask, what fails how, probes, files. The API is in api.ts. */
import { Hono } from "hono";
import { messageOf, MosaicError } from "../base/errors.ts";
import { STANDARD_BOUNDS } from "../base/load_limits.ts";
import type { Logger } from "../base/log.ts";
import type { Core } from "../dispatch/core/core.ts";
import { metricsOf } from "../observability/daemon_metrics.ts";
import { PROMETHEUS_TYPE, prometheusText } from "../observability/prometheus_text.ts";
import { type Readiness, readinessOf } from "../observability/readiness.ts";
import type { Audit } from "../wire/audit.ts";
import { errorBody, RequestRefused } from "./answers.ts";
import { pageApi } from "./api.ts";
import type { ReportWanted } from "./many_runs.ts";
import { EventStreams } from "./event_stream.ts";
import { guard, type PageEnv, type RequestPeer, safeHeaders } from "./guard.ts";
import { BODY_LIMITS, type BodyLimits } from "./request.ts";
import type { Authenticate } from "./viewer.ts";

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
  audit?: Audit;
  /** The HTML of a report of runs; without it the page makes none. */
  report?: (wanted: ReportWanted) => Promise<string>;
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

export function createApp(core: Core, options: AppOptions): PageApp {
  const token = crypto.randomUUID();
  const streams = new EventStreams(options.maxStreams ?? STANDARD_BOUNDS.maxPageStreams);
  const readiness = options.readiness ?? (() => readinessOf(core, { accepting: () => true }));
  const body: BodyLimits = { ...BODY_LIMITS, ...options.body };
  const app = new Hono<PageEnv>();
  app.use(safeHeaders);
  app.use(guard({
    bound: options.bound,
    hosts: options.hosts ?? [],
    token,
    authenticate: options.authenticate,
    logIn: options.logIn,
    body,
    audit: options.audit,
  }));
  app.use("/api/*", async (c, next) => {
    await next();
    if (!c.res.headers.has("cache-control")) c.res.headers.set("cache-control", "no-store");
  });
  app.onError((error, c) => {
    const { status, body } = errorBody(error);
    // Cancel an unread body, so that it does not hold the connection.
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

  app.route(
    "/api",
    pageApi(core, {
      token,
      log: options.log,
      audit: options.audit,
      body,
      streams,
      report: options.report,
      tickMs: options.tickMs ?? 1000,
      logLines: options.logLines ?? STANDARD_BOUNDS.logLines,
    }),
  );

  // The page's scripts and styles are half of a daemon's program, and many daemons show nobody a page.
  const files = () => import("./assets.ts");
  app.get("/assets/:name", async (c) => (await files()).asset(c.req.param("name"), c.req.raw.headers));
  for (const path of ["/", "/runs/:id", "/compare", "/wall"]) {
    app.get(path, async (c) => {
      const html = (await files()).shell(token, c.get("identity"), core.version);
      return c.html(html, 200, { "cache-control": "no-store" });
    });
  }
  // Where MLflow's client tells people to look: MLFLOW_TRACKING_URI, and the rest behind "#".
  app.get("/mlflow/:id/", (c) => c.redirect(`/runs/${encodeURIComponent(c.req.param("id"))}#overview`));

  return {
    token,
    fetch: (request, from = { peer: "", owner: false, bySocket: false }) => app.fetch(request, from),
    stop() {
      streams.stop();
    },
  };
}
