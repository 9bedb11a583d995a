/** The page as a Hono application: authentication, errors, probes, files. The API is in api.ts. */
import { type Context, Hono } from "hono";
import { messageOf, MosaicError } from "../base/errors.ts";
import { STANDARD_BOUNDS } from "../base/load_limits.ts";
import type { Logger } from "../base/log.ts";
import type { Core } from "../dispatch/core/core.ts";
import { ownCore } from "../dispatch/own/own_core.ts";
import { metricsOf } from "../observability/daemon_metrics.ts";
import { PROMETHEUS_TYPE, prometheusText } from "../observability/prometheus_text.ts";
import { type Readiness, readinessOf } from "../observability/readiness.ts";
import type { Audit } from "../wire/audit.ts";
import { errorBody, RequestRefused } from "./http/answers.ts";
import { pageApi } from "./api/api.ts";
import { EventStreams } from "./http/event_stream.ts";
import { compressed } from "./http/compressed.ts";
import { guard, type PageEnv, type RequestPeer, safeHeaders } from "./http/guard.ts";
import { BODY_LIMITS, type BodyLimits } from "./http/request.ts";
import type { Authenticate } from "./http/viewer.ts";

export interface AppOptions {
  log: Logger;
  /**
   * The host that the page listens on: requests must name it, a loopback name, or one of `hosts`.
   */
  bound: string;
  hosts?: readonly string[];
  authenticate?: Authenticate;
  /** Answers requests of logging in and out; undefined for all others. */
  logIn?: (request: Request, peer: string) => Promise<Response | undefined>;
  /** Bounds of a request's body. */
  body?: Partial<BodyLimits>;
  /** Milliseconds between two ticks of a live stream; 1000. */
  tickMs?: number;
  /** Bound on live connections. */
  maxStreams?: number;
  /** Lines a second for one follower of a log. */
  logLines?: number;
  audit?: Audit;
  /** The answer of `/readyz`; default: what is known without the rest of the daemon. */
  readiness?: () => Readiness;
}

export interface PageApp {
  /** @param from sender of the request */
  fetch(request: Request, from?: RequestPeer): Response | Promise<Response>;
  /** Token that a browser's calls of the API must carry, like the page's own changes. */
  readonly token: string;
  stop(): void;
}

/**
 * Whether a person has opened this address in a browser: programs and the page's own requests are
 * answered in JSON.
 */
function isVisit({ req }: Context<PageEnv>): boolean {
  return req.method === "GET" && !/^\/(?:api|assets)\//.test(req.path) &&
    /\btext\/html\b/.test(req.header("accept") ?? "");
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
    c.res = compressed(c.req.raw, c.res);
  });
  const failed = (error: Error, c: Context<PageEnv>) => {
    const { status, body } = errorBody(error);
    // Cancel an unread body, so that it does not hold the connection.
    if (error instanceof RequestRefused) c.header("connection", "close");
    if (error instanceof MosaicError && error.retryAfterMs !== undefined) {
      c.header("retry-after", String(Math.ceil(error.retryAfterMs / 1000)));
    }
    if (status === 500) {
      options.log.error({ err: messageOf(error), path: c.req.path }, "page request failed");
    }
    return c.json(body, status);
  };
  app.onError(failed);
  const missing = async (c: Context<PageEnv>) => {
    if (isVisit(c)) return await page(c, 404);
    return c.json(
      { error: { code: "not_found", message: `there is nothing at ${c.req.path}` } },
      404,
    );
  };
  app.notFound(missing);

  app.get("/healthz", (c) => c.json({ ok: true }));
  app.get("/readyz", (c) => {
    const state = readiness();
    return c.json(state, state.ready ? 200 : 503);
  });
  app.get("/metrics", (c) => {
    if (c.get("identity").alone) {
      const message = "metrics are of all runs, and this token sees only its own";
      throw new MosaicError("permission_denied", message);
    }
    return c.body(prometheusText(metricsOf(core)), 200, { "content-type": PROMETHEUS_TYPE });
  });

  const apiOf = (seen: Core) =>
    pageApi(seen, {
      token,
      log: options.log,
      audit: options.audit,
      body,
      streams,
      tickMs: options.tickMs ?? 1000,
      logLines: options.logLines ?? STANDARD_BOUNDS.logLines,
    });
  // Who sees only their own runs has an API without any other, made at their first request.
  const own = new Map<string, Hono<PageEnv>>();
  app.use("/api/*", async (c, next) => {
    const identity = c.get("identity");
    if (!identity.alone) return await next();
    const { name } = identity;
    if (!own.has(name)) {
      const api = new Hono<PageEnv>().onError(failed).notFound(missing).use(async (c, next) => {
        c.set("identity", c.env.identity!);
        await next();
      });
      own.set(name, api.route("/api", apiOf(ownCore(core, name))));
    }
    return await own.get(name)!.fetch(c.req.raw, { ...c.env, identity });
  });
  app.route("/api", apiOf(core));

  // The page's scripts and styles are half of a daemon's program, and many daemons never serve the
  // page.
  const files = () => import("./assets.ts");
  const page = async (c: Context<PageEnv>, status: 200 | 404) => {
    const html = (await files()).shell(c.req.path, token, c.get("identity"), core);
    return c.html(html, status, { "cache-control": "no-store" });
  };
  app.get(
    "/assets/:name",
    async (c) => (await files()).asset(c.req.param("name"), c.req.raw.headers),
  );
  app.get("/assets/:build/:name", async (c) => {
    const { build, name } = c.req.param();
    return (await files()).asset(name, c.req.raw.headers, build);
  });
  // The manual; its pages name each other relative to this folder.
  for (const path of ["/docs", "/docs/"]) app.get(path, (c) => c.redirect("/docs/index.html"));
  app.get("/docs/*", async (c) => {
    const { siteFiles } = await import("../manual/site.ts");
    const path = c.req.path.slice("/docs/".length);
    const file = (await siteFiles()).get(path);
    if (file === undefined && isVisit(c)) return await page(c, 404);
    if (file === undefined) throw new MosaicError("not_found", `the manual has no page "${path}"`);
    return c.body(file.text, 200, { "content-type": file.type, "cache-control": "no-cache" });
  });
  for (const path of ["/", "/runs/:id", "/compare", "/wall", "/sweeps", "/sweeps/:id"]) {
    app.get(path, (c) => page(c, 200));
  }
  // The address that MLflow's client prints: MLFLOW_TRACKING_URI, with the rest after "#".
  app.get(
    "/mlflow/:id/",
    (c) => c.redirect(`/runs/${encodeURIComponent(c.req.param("id"))}#overview`),
  );

  return {
    token,
    fetch: (request, from = { peer: "", owner: false, bySocket: false }) =>
      app.fetch(request, from),
    stop() {
      streams.stop();
    },
  };
}
