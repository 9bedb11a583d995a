/**
 * The live streams: changes, found by durable cursors, and constantly changing numbers, once per
 * tick.
 */
import type { Core } from "../../dispatch/core/core.ts";
import { RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import { type ServerEvent, waitFor } from "../http/event_stream.ts";
import { logSizes } from "./run_log.ts";
import { recordsAfter } from "./public_records.ts";
import { hostJson } from "../../runs/fields/host_json.ts";
import { eventLine, heads, runPage } from "./page_json.ts";
import { runJson } from "../../runs/fields/run_json.ts";

const CHANGES_PER_EVENT = 500;
const RECORDS_PER_EVENT = 200;
/** At most this many runs are updated on the page at the same time. */
const MOVING_RUNS = 500;

/** Numbers of all live runs and the host, computed once per tick for all pages. */
export class Ticker {
  readonly #core: Core;
  readonly #tickMs: number;
  #at = -Infinity;
  #data: Record<string, unknown> = {};

  constructor(core: Core, tickMs: number) {
    this.#core = core;
    this.#tickMs = tickMs;
  }

  data(): Record<string, unknown> {
    const now = performance.now();
    if (now - this.#at >= this.#tickMs * 0.9) {
      this.#at = now;
      const moving = this.#core.list({ states: RUNNING_STATES }, { limit: MOVING_RUNS });
      this.#data = {
        at: Date.now(),
        host: hostJson(this.#core.host()),
        total: this.#core.runs.count({}),
        trash: this.#core.runs.count({ deleted: true }),
        runs: moving.runs.map(runJson),
      };
    }
    return this.#data;
  }
}

/** Events after which the line of a run may change although none of its numbers did. */
const LINE_EVENTS = ["queued", "state", "edited", "trashed", "restored", "deleted"];

/**
 * All runs: `runs` (id = event seq) whenever a run changed its state, was added or removed;
 * `alerts`; `tick` once per tick.
 */
export async function* allRunsLive(
  core: Core,
  ticker: Ticker,
  since: number,
  tickMs: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  let cursor = since;
  let nextTick = 0;
  while (!signal.aborted) {
    const events = core.runs.eventsSince(cursor, { limit: CHANGES_PER_EVENT });
    if (events.length > 0) {
      cursor = events.at(-1)!.seq;
      const ids = [
        ...new Set(events.filter((e) => LINE_EVENTS.includes(e.kind)).map((e) => e.runId)),
      ];
      const rows = ids.map((id) => core.runs.get(id));
      const runs = rows.filter((r) => r !== undefined).map((r) => runJson(core.detail(r)));
      const deleted = ids.filter((_, i) => rows[i] === undefined);
      const alerts = events.filter((e) => e.kind === "alert").map(eventLine);
      if (alerts.length > 0) yield { event: "alerts", data: { alerts } };
      if (ids.length > 0) yield { event: "runs", id: cursor, data: { runs, deleted } };
      continue;
    }
    const now = performance.now();
    if (now >= nextTick) {
      nextTick = now + tickMs;
      yield { event: "tick", data: ticker.data() };
      continue;
    }
    await waitFor(nextTick - now, signal, (s) => core.runs.waitEventsBeyond(cursor, s));
  }
}

/**
 * One run: `run` with all its detail after each event, `event` (id = event seq), `tick` with
 * changing numbers.
 */
export async function* runLive(
  core: Core,
  runId: string,
  since: number,
  tickMs: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  let cursor = since;
  let nextTick = 0;
  const createdAt = core.runs.get(runId)?.createdAt;
  while (!signal.aborted) {
    const row = core.runs.get(runId);
    // The id of a deleted run may be used again.
    if (row === undefined || row.createdAt !== createdAt) {
      yield { event: "gone", data: { run_id: runId } };
      return;
    }
    const events = core.runs.eventsSince(cursor, { runId, limit: RECORDS_PER_EVENT });
    if (events.length > 0) {
      for (const event of events) {
        cursor = event.seq;
        yield { event: "event", id: cursor, data: eventLine(event) };
      }
      yield { event: "run", data: runPage(core, core.runs.get(runId) ?? row) };
      continue;
    }
    const now = performance.now();
    if (now >= nextTick) {
      nextTick = now + tickMs;
      yield {
        event: "tick",
        data: {
          at: Date.now(),
          ...runJson(core.detail(row)),
          heads: heads(core, runId),
          logs: await logSizes(core, row),
        },
      };
      continue;
    }
    await waitFor(
      nextTick - now,
      signal,
      (s) => core.runs.waitEventsBeyond(core.runs.eventHead(), s),
    );
  }
}

/**
 * Every record of one kind after `since`, in order and without gaps; the event's id is the last
 * record's seq. Ends with `gone` when the run is deleted.
 */
export async function* recordsLive(
  core: Core,
  runId: string,
  kind: TelemetryKind,
  since: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  let cursor = since;
  using run = core.records.follow(runId);
  while (!signal.aborted) {
    if (run.deleted.aborted) {
      yield { event: "gone", data: { run_id: runId } };
      return;
    }
    const head = core.records.head(runId, kind);
    const { json, last } = recordsAfter(core.records, runId, kind, cursor, RECORDS_PER_EVENT);
    if (last !== undefined) {
      cursor = last;
      yield { event: kind, id: cursor, json };
      continue;
    }
    // The records up to there are damaged: skip them.
    cursor = Math.max(cursor, head);
    yield { event: "idle", data: { at: Date.now() } };
    await waitFor(15_000, signal, (s) => core.records.waitBeyond(runId, kind, cursor, s));
  }
}

/** The event log of all runs; the event's id is its seq. */
export async function* eventsLive(
  core: Core,
  since: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  let cursor = since;
  while (!signal.aborted) {
    const events = core.runs.eventsSince(cursor, { limit: RECORDS_PER_EVENT });
    for (const event of events) {
      cursor = event.seq;
      yield { event: "event", id: cursor, data: eventLine(event) };
    }
    if (events.length > 0) continue;
    yield { event: "idle", data: { at: Date.now() } };
    await waitFor(15_000, signal, (s) => core.runs.waitEventsBeyond(cursor, s));
  }
}

/**
 * Counts a stream among the subscribers. Its cursor is the id of the last event that the connection
 * has accepted.
 */
export async function* counted<T extends Partial<ServerEvent> | Uint8Array>(
  core: Core,
  what: { stream: string; since?: number; head?: () => number },
  events: AsyncGenerator<T>,
): AsyncGenerator<T> {
  const { stream, since = 0, head } = what;
  let cursor = since;
  const closed = core.activity.subscribers.opened("page", stream, head && (() => head() - cursor));
  try {
    for await (const event of events) {
      yield event;
      if ("id" in event && typeof event.id === "number") cursor = event.id;
    }
  } finally {
    closed();
  }
}
