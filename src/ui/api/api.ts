/**
 * The page's API as Hono sub-apps: routes only; the files beside this one build the answers.
 * `PageApi` is the type of everything, from which the page's own client (client/api.ts) knows
 * paths, queries and answers.
 */
import { type Context, Hono, type MiddlewareHandler, type TypedResponse } from "hono";
import { MosaicError } from "../../base/errors.ts";
import type { Audit } from "../../wire/audit.ts";
import type { Logger } from "../../base/log.ts";
import { pageCode } from "./page_code.ts";
import { presentConfig } from "../../config/present_config.ts";
import type { Core } from "../../dispatch/core/core.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { TELEMETRY_KINDS, type TelemetryKind } from "../../records/record_fields.ts";
import type { FrameKind } from "../../records/render_payload.ts";
import { type Actor, applyToMany, applyToRun, changeSweep } from "./actions.ts";
import { listOf, wholeNumber } from "../http/answers.ts";
import { artifactResponse } from "../files/artifact_file.ts";
import { columns } from "./chart_series.ts";
import { columnNames, runColumns } from "./columns.ts";
import { evalSummary } from "../files/eval_summary.ts";
import type { EventStreams } from "../http/event_stream.ts";
import { type PageEnv, requestedBy } from "../http/guard.ts";
import { LOCAL_OWNER } from "../http/viewer.ts";
import { allRunsLive, counted, eventsLive, recordsLive, runLive, Ticker } from "./live.ts";
import { hostJson } from "../../runs/fields/host_json.ts";
import { eventLine, heads, lineagePage, runPage, seriesLine } from "./page_json.ts";
import { runJson } from "../../runs/fields/run_json.ts";
import { framesLive, MAX_WATCHED } from "../../frames/live_frames.ts";
import { pageReport } from "./page_report.ts";
import { framesOf } from "../../frames/pictures.ts";
import { recordAt, recordsAfter } from "./public_records.ts";
import { type BodyLimits, textOf } from "../http/request.ts";
import {
  beginWanted,
  comparedRuns,
  comparisonBegins,
  namesOfMany,
  reportWanted,
  runsWanted,
  seriesOfMany,
  seriesWanted,
} from "./many_runs.ts";
import {
  LOG_STREAMS,
  logDownload,
  logLive,
  type LogStream,
  readLog,
  readLogBefore,
  searchLog,
} from "./run_log.ts";
import { listRuns } from "./runs_list.ts";
import { mediaEventsBefore } from "./media_events.ts";
import { momentOf } from "./moment.ts";
import { parseEventKinds } from "../../registry/event_kinds.ts";

export interface ApiOptions {
  log: Logger;
  audit: Audit | undefined;
  /** The answer of `GET session`. */
  token: string;
  body: BodyLimits;
  streams: EventStreams;
  tickMs: number;
  logLines: number;
}

const RECORDS_LIMIT = 1000;
const SERIES_LIMIT = 24;
const BUCKETS_LIMIT = 4000;

type Ctx = Context<PageEnv>;
// deno-lint-ignore no-explicit-any
type Row = Record<string, any>;
type Records = Partial<Record<TelemetryKind, Row[]>> & { heads: ReturnType<typeof heads> };

/**
 * Declares, for the typed client, what a route reads of a request; the values are checked where
 * they are read.
 */
function takes<I extends { query?: unknown; json?: unknown }>(): MiddlewareHandler<
  PageEnv,
  string,
  { in: I; out: I }
> {
  return (_, next) => next();
}

/** An answer whose JSON text exists already. */
function jsonText<T>(c: Ctx, text: string): TypedResponse<T, 200, "json"> {
  return c.body(text, 200, { "content-type": "application/json" }) as unknown as TypedResponse<
    T,
    200,
    "json"
  >;
}

/**
 * Where a live stream continues: after the last event that the browser received, else after
 * `since`, else at `fallback`.
 */
const sinceOf = (c: Ctx, fallback: number): number =>
  wholeNumber("since", c.req.header("last-event-id") || c.req.query("since"), fallback);

interface ReportRequest {
  runs: string[];
  metrics?: string[];
  group_by?: string;
  band?: string;
  log?: boolean;
  time?: boolean;
  overwritten?: boolean;
}

export type PageApi = ReturnType<typeof pageApi>;

export function pageApi(core: Core, options: ApiOptions) {
  return new Hono<PageEnv>()
    .route("/", daemonApi(core, options))
    .route("/sweeps", sweepsApi(core, options))
    .route("/runs", runsApi(core, options));
}

/** The host, the event log, and everything about all runs. */
function daemonApi(core: Core, { token, body, streams, tickMs }: ApiOptions) {
  let reporting = false;
  const head = () => core.runs.eventHead();
  const ticker = new Ticker(core, tickMs);
  return new Hono<PageEnv>()
    .get("/session", (c) =>
      c.json({
        token,
        name: c.get("identity").name,
        read_only: c.get("identity").readOnly,
        version: core.version,
        started_at: core.startedAt,
      }))
    .get("/columns", takes<{ query: { id?: string | string[] } }>(), (c) => {
      const ids = c.req.queries("id");
      return ids === undefined
        ? c.json(columnNames(core))
        : c.json({ columns: runColumns(core, ids) });
    })
    // These change nothing; they are POST because a thousand ids are too long for a URL.
    .post("/series", takes<{ json: { runs: string[]; names: string[] } }>(), async (c) => {
      const wanted = seriesWanted(await textOf(c.req.raw, body));
      return streams.respondBytes((signal) => seriesOfMany(core, wanted, signal));
    })
    .post("/compared/first", takes<{ json: { runs: string[] } }>(), async (c) => {
      const wanted = beginWanted(await textOf(c.req.raw, body));
      return streams.respondBytes((signal) => comparisonBegins(core, wanted, signal));
    })
    .post(
      "/series/names",
      takes<{ json: { runs: string[] } }>(),
      async (c) => c.json(await namesOfMany(core, runsWanted(await textOf(c.req.raw, body)))),
    )
    .post(
      "/compared",
      takes<{ json: { runs: string[] } }>(),
      async (c) =>
        c.json({ runs: await comparedRuns(core, runsWanted(await textOf(c.req.raw, body))) }),
    )
    .post("/report", takes<{ json: ReportRequest }>(), async (c) => {
      const { runs, options } = reportWanted(await textOf(c.req.raw, body));
      if (reporting) {
        throw new MosaicError(
          "resource_exhausted",
          "another report is being made: try again in a moment",
        );
      }
      reporting = true;
      try {
        return c.body(await pageReport(core, runs, options), 200, {
          "content-type": "text/html; charset=utf-8",
          "content-disposition": 'attachment; filename="mosaic-report.html"',
        });
      } finally {
        reporting = false;
      }
    })
    .get("/host", (c) => c.json(hostJson(core.host())))
    .get("/live", (c) => {
      const since = sinceOf(c, head());
      return streams.respond((signal) =>
        counted(
          core,
          { stream: "event_log", since, head },
          allRunsLive(core, ticker, since, tickMs, signal),
        )
      );
    })
    .get("/frames/live", (c) => {
      const of = c.req.queries("of") ?? [];
      if (of.length === 0 || of.length > MAX_WATCHED) {
        throw new MosaicError(
          "invalid_argument",
          `of names ${of.length} runs; must be 1 to ${MAX_WATCHED}`,
        );
      }
      const ids = of.map((id) => core.runs.resolve(id).runId);
      return streams.respondBytes((signal) =>
        counted(core, { stream: "frames" }, framesLive(core, ids, signal))
      );
    })
    .get(
      "/events",
      takes<{ query: { since?: string; limit?: string; run?: string; kinds?: string } }>(),
      (c) => {
        const kinds = c.req.query("kinds");
        const rows = core.runs.eventsSince(wholeNumber("since", c.req.query("since"), 0), {
          limit: wholeNumber("limit", c.req.query("limit"), 100, 1, RECORDS_LIMIT),
          ...(c.req.query("run") ? { runId: c.req.query("run")! } : {}),
          ...(kinds ? { kinds: parseEventKinds(kinds) } : {}),
        });
        return c.json({ events: rows.map(eventLine), head: head() });
      },
    )
    .get("/events/live", (c) => {
      const since = sinceOf(c, head());
      return streams.respond((signal) =>
        counted(core, { stream: "event_log", since, head }, eventsLive(core, since, signal))
      );
    });
}

function actorIn(c: Ctx, log: Logger, audit: Audit | undefined): Actor {
  const identity = c.get("identity");
  const by = requestedBy(c.env);
  return {
    identity,
    submitter: identity !== LOCAL_OWNER
      ? identity.name
      : by.uid === undefined
      ? ""
      : `uid:${by.uid}`,
    log,
    entered: (what) => audit?.did({ who: identity.name, ...by, ...what }),
  };
}

const SWEEPS_LIMIT = 1000;
const TRIALS_LIMIT = 10_000;

const FILE_TYPES: Record<string, string> = {
  csv: "text/csv; charset=utf-8",
  json: "application/json",
  parquet: "application/vnd.apache.parquet",
};

function sweepsApi(core: Core, { log, audit, body }: Pick<ApiOptions, "log" | "audit" | "body">) {
  return new Hono<PageEnv>()
    .get("/", async (c) => c.json({ sweeps: await core.listSweeps(SWEEPS_LIMIT) }))
    .get("/:id", async (c) => c.json(await core.getSweep(c.req.param("id"), TRIALS_LIMIT)))
    .get("/:id/table", takes<{ query: { of?: string; format?: string } }>(), async (c) => {
      const { of = "points", format = "csv" } = c.req.query();
      const bytes = await core.sweepTable(c.req.param("id"), of, format);
      return c.body(bytes, 200, {
        "content-type": FILE_TYPES[format]!,
        "content-disposition": "attachment",
      });
    })
    .post("/:id/:action", takes<{ json: { seeds?: string; winner?: boolean } }>(), async (c) => {
      const { id, action } = c.req.param();
      const text = await textOf(c.req.raw, body);
      return c.json(await changeSweep(core, id, action, text, actorIn(c, log, audit)));
    });
}

function runsApi(core: Core, { log, audit, body, streams, tickMs, logLines }: ApiOptions) {
  const actorOf = (c: Ctx) => actorIn(c, log, audit);
  /**
   * A run may be read by its name, a prefix of its id or "@last"; to change it, its id is required.
   */
  const runOf = (c: Ctx): RunRow => core.runs.resolve(c.req.param("id") ?? "");
  const kindOf = (c: Ctx): TelemetryKind => {
    const kind = c.req.param("kind") as TelemetryKind;
    if (!TELEMETRY_KINDS.includes(kind)) {
      throw new MosaicError("not_found", `there are no records called "${kind}"`);
    }
    return kind;
  };
  const frameKindOf = (c: Ctx): FrameKind => {
    const kind = c.req.query("kind") ?? "steps";
    if (kind === "steps" || kind === "episodes") return kind;
    throw new MosaicError(
      "invalid_argument",
      `kind: "${kind}" have no frames, only steps and episodes`,
    );
  };
  const streamOf = (c: Ctx): LogStream => {
    const stream = c.req.param("stream") as LogStream;
    if (!LOG_STREAMS.includes(stream)) throw new MosaicError("not_found", `no log "${stream}"`);
    return stream;
  };
  type LogQuery = { [K in "from" | "before" | "q" | "attempt"]?: string };
  type ListQuery = {
    [K in "state" | "name" | "tag" | "sort" | "limit" | "token" | "where" | "columns" | "trash"]?:
      string;
  };
  type SeriesQuery = { name?: string | string[]; from?: string; to?: string; buckets?: string };

  return new Hono<PageEnv>()
    .get("/", takes<{ query: ListQuery & { ids?: string } }>(), async (c) => {
      if (c.req.query("ids") === undefined) {
        // Read the newest event number first: a change during the listing is then sent twice
        // instead of being missed.
        const head = core.runs.eventHead();
        return c.json({ ...await listRuns(core, c.req.query()), head });
      }
      const rows = listOf(c.req.query("ids")).slice(0, 200).map((id) => core.runs.get(id));
      return c.json({
        runs: rows.filter((r) => r !== undefined).map((r) => runJson(core.detail(r))),
      });
    })
    .post(
      "/actions",
      takes<{ json: { action: string; run_ids: string[]; [parameter: string]: unknown } }>(),
      async (c) => c.json(await applyToMany(core, await textOf(c.req.raw, body), actorOf(c))),
    )
    .get("/:id", (c) => c.json({ ...runPage(core, runOf(c)), head: core.runs.eventHead() }))
    .get("/:id/live", (c) => {
      const { runId } = runOf(c);
      const since = sinceOf(c, core.runs.eventHead());
      return streams.respond((signal) =>
        counted(core, { stream: "run", since }, runLive(core, runId, since, tickMs, signal))
      );
    })
    .get("/:id/config", takes<{ query: { reveal?: string } }>(), (c) => {
      const reveal = c.req.query("reveal") === "1";
      if (reveal && !c.get("identity").admin) {
        throw new MosaicError(
          "permission_denied",
          "secrets of a config are shown only to the admin role",
        );
      }
      return c.json(presentConfig(runOf(c).configJson, reveal));
    })
    .get("/:id/code", (c) => c.json(pageCode(core, runOf(c))))
    .get("/:id/lineage", (c) => c.json(lineagePage(core, runOf(c))))
    .get("/:id/series", takes<{ query: SeriesQuery }>(), (c) => {
      const { runId } = runOf(c);
      const names = c.req.queries("name");
      if (names === undefined) {
        return c.json({ series: core.records.listSeries(runId).map(seriesLine) });
      }
      const from = wholeNumber("from", c.req.query("from"), 0);
      const to = wholeNumber("to", c.req.query("to"), Number.MAX_SAFE_INTEGER);
      const buckets = wholeNumber("buckets", c.req.query("buckets"), 500, 1, BUCKETS_LIMIT);
      return c.json({
        series: names.slice(0, SERIES_LIMIT).map((n) =>
          columns(core.records, runId, n, from, to, buckets)
        ),
      });
    })
    .get("/:id/eval", async (c) => c.json({ summary: await evalSummary(core.detail(runOf(c))) }))
    .get(
      "/:id/frames",
      takes<{ query: { kind?: FrameKind; since?: string; limit?: string } }>(),
      (c) => {
        const { runId } = runOf(c);
        return c.json(framesOf(
          core,
          runId,
          frameKindOf(c),
          wholeNumber("since", c.req.query("since"), 0),
          wholeNumber("limit", c.req.query("limit"), 32, 1, 256),
        ));
      },
    )
    .get("/:id/media_events", takes<{ query: { before?: string } }>(), (c) => {
      const { runId } = runOf(c);
      return c.json(
        mediaEventsBefore(
          core,
          runId,
          wholeNumber("before", c.req.query("before"), Number.MAX_SAFE_INTEGER, 1),
        ),
      );
    })
    .get("/:id/moment", takes<{ query: { episode?: string; at?: string } }>(), (c) => {
      const { runId } = runOf(c);
      const episode = c.req.query("episode");
      return c.json(momentOf(
        core,
        runId,
        episode === undefined
          ? { at: wholeNumber("at", c.req.query("at"), Date.now()) }
          : { episode: wholeNumber("episode", episode, 0, 1) },
      ));
    })
    .get("/:id/:kind/:seq{[0-9]+}", (c) => {
      const { runId } = runOf(c);
      const kind = kindOf(c);
      const seq = wholeNumber("seq", c.req.param("seq"), 0, 1);
      const json = recordAt(core.records, runId, kind, seq);
      if (json === undefined) {
        throw new MosaicError("not_found", `the run has none of ${kind} with seq ${seq}`);
      }
      return jsonText<Row>(c, json);
    })
    .get("/:id/logs/:stream", takes<{ query: LogQuery }>(), async (c) => {
      const row = runOf(c);
      const stream = streamOf(c);
      const { before, q, attempt: given, download } = c.req.query();
      const attempt = given === undefined ? undefined : wholeNumber("attempt", given, 0);
      if (download !== undefined) {
        const name = `${row.runId}.${attempt ?? row.attempt}.${
          stream === "both" ? "" : `${stream}.`
        }log`;
        return c.body(logDownload(core, row, stream, attempt), 200, {
          "content-type": "text/plain; charset=utf-8",
          "content-disposition": `attachment; filename="${name}"`,
        });
      }
      if (q) {
        const from = wholeNumber("from", c.req.query("from"), 0);
        return c.json(await searchLog(core, row, stream, q.slice(0, 500), from, 500, attempt));
      }
      if (before !== undefined) {
        return c.json(
          await readLogBefore(core, row, stream, wholeNumber("before", before, 0), attempt),
        );
      }
      const from = wholeNumber("from", c.req.query("from"), 0, Number.MIN_SAFE_INTEGER);
      return c.json(await readLog(core, row, stream, from, attempt));
    })
    .get("/:id/logs/:stream/live", (c) => {
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
    })
    .get(
      "/:id/artifacts/:path{.+}",
      async (c) =>
        await artifactResponse(core, core.detail(runOf(c)), c.req.param("path"), c.req.raw),
    )
    .post("/:id/:action", takes<{ json: Record<string, unknown> }>(), async (c) => {
      const { id, action } = c.req.param();
      const { runId } = action === "restore" ? core.runs.resolveDeleted(id) : core.runs.require(id);
      return c.json(
        await applyToRun(core, runId, action, await textOf(c.req.raw, body), actorOf(c)),
      );
    })
    .get("/:id/:kind", takes<{ query: { since?: string; limit?: string } }>(), (c) => {
      const { runId } = runOf(c);
      const kind = kindOf(c);
      const since = wholeNumber("since", c.req.query("since"), 0);
      const limit = wholeNumber("limit", c.req.query("limit"), 100, 1, RECORDS_LIMIT);
      const { json } = recordsAfter(core.records, runId, kind, since, limit);
      return jsonText<Records>(
        c,
        `{"${kind}":${json},"heads":${JSON.stringify(heads(core, runId))}}`,
      );
    })
    .get("/:id/:kind/live", (c) => {
      const { runId } = runOf(c);
      const kind = kindOf(c);
      const since = sinceOf(c, 0);
      const head = () => core.records.head(runId, kind);
      return streams.respond((signal) =>
        counted(core, { stream: kind, since, head }, recordsLive(core, runId, kind, since, signal))
      );
    });
}
