/**
 * The connection to the daemon and the sources delivered over it, as a pure state machine. Delivery
 * is a cursor: each connection begins where the daemon's store ends. Without a connection nothing
 * is read or kept in memory: the sources on disk are the queue.
 */
import { FIRST_WINDOW_BYTES } from "../../base/agreed.ts";
import type { Effects, Event, Failure, SourceId, WorkerEnd } from "./events_and_effects.ts";
import { batchBytes, BUSY_BYTES, FLUSH_MS, isSmall } from "./flush.ts";
import { delayAfter, meaningOf, WELCOME_TIMEOUT_MS } from "./reconnect.ts";

type EventOf<Tag extends Event["tag"]> = Extract<Event, { tag: Tag }>;

export interface DeliverySettings {
  /** Files are read in addition to the journal. */
  readonly observes?: boolean;
  readonly heartbeatMs: number;
  readonly answerTimeoutMs: number;
  readonly refusedTokenTries: number;
}

/** Failed connections in a row, and how many of them were refused for their token. */
export interface Tries {
  readonly failed: number;
  readonly tokenRefused: number;
}

export type Connection =
  /** No try yet. */
  | { readonly tag: "none" }
  /** No hello was sent: a failure is no answer of the daemon. */
  | { readonly tag: "connecting"; readonly tries: Tries }
  | { readonly tag: "greeting"; readonly tries: Tries; readonly until: number }
  | {
    readonly tag: "open";
    readonly windowBytes: number;
    readonly heartbeatAt: number;
    /** Until when the daemon must send something; undefined while nothing is unacknowledged. */
    readonly answerUntil: number | undefined;
    readonly exitReported: boolean;
    readonly openedAt: number;
  }
  | { readonly tag: "waiting"; readonly tries: Tries; readonly until: number }
  /** The daemon refuses the attempt for good. */
  | { readonly tag: "refused"; readonly reason: string };

export type Reading =
  /** There may be something to read, as soon as the window allows it. */
  | { readonly tag: "ready" }
  /** A read is in progress. */
  | { readonly tag: "reading"; readonly most: number }
  /** The last batch was small: wait for more. */
  | { readonly tag: "gathering"; readonly until: number }
  /** Everything is sent; the next growth is reported. With `final` nothing more will come. */
  | { readonly tag: "caught_up"; readonly final: boolean };

export interface Source {
  readonly id: SourceId;
  /** Bytes that the daemon has acknowledged. */
  readonly acknowledged: number;
  readonly sent: number;
  /**
   * Position up to which records were counted: bytes that are read again after a reconnection are
   * not counted again.
   */
  readonly counted: number;
  readonly reading: Reading;
}

export interface DeliveryState {
  readonly connection: Connection;
  readonly sources: readonly Source[];
  /** Connections in a row that ended soon because a source could not be read. */
  readonly unreadable: number;
}

/** Bytes of unacknowledged file chunks. */
const UPLOAD_WINDOW_BYTES = 2 << 20;

/** After a connection that was open for this long, a read that fails is the first of a new row. */
const LASTING_MS = 10_000;

const NO_TRIES: Tries = { failed: 0, tokenRefused: 0 };

export function undelivered({ observes = false }: DeliverySettings): DeliveryState {
  const ids: SourceId[] = observes ? ["stdout", "files"] : ["stdout"];
  return { connection: { tag: "none" }, sources: ids.map(unread), unreadable: 0 };
}

function unread(id: SourceId): Source {
  return { id, acknowledged: 0, sent: 0, counted: 0, reading: { tag: "ready" } };
}

export function deliveryDueAt({ connection, sources }: DeliveryState): number {
  switch (connection.tag) {
    case "none":
    case "connecting":
    case "refused":
      return Infinity;
    case "greeting":
    case "waiting":
      return connection.until;
    case "open":
      return Math.min(
        connection.heartbeatAt,
        connection.answerUntil ?? Infinity,
        ...sources.map(({ reading }) => reading.tag === "gathering" ? reading.until : Infinity),
      );
  }
}

export function isOpen({ connection }: DeliveryState): boolean {
  return connection.tag === "open";
}

export function connect(delivery: DeliveryState, effects: Effects): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "none" && connection.tag !== "waiting") return delivery;
  effects.push({ tag: "connect" });
  const tries = connection.tag === "waiting" ? connection.tries : NO_TRIES;
  return { ...delivery, connection: { tag: "connecting", tries } };
}

/** Sends the hello. */
export function greet(delivery: DeliveryState, now: number): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "connecting") return delivery;
  return {
    ...delivery,
    connection: { tag: "greeting", tries: connection.tries, until: now + WELCOME_TIMEOUT_MS },
  };
}

export function welcomed(
  delivery: DeliveryState,
  { target, positions, windowBytes, uploads }: EventOf<"welcomed">,
  { heartbeatMs }: DeliverySettings,
  now: number,
  effects: Effects,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "greeting") return delivery;
  const { failed } = connection.tries;
  if (failed > 0) {
    effects.push({
      tag: "log",
      level: "info",
      message: "connected again",
      fields: { target, tries: failed },
    });
  }
  const known = delivery.sources.filter(({ id }) => id !== "uploads");
  const sources = [...known, ...uploads ? [unread("uploads")] : []].map((source): Source => {
    const position = positions[source.id];
    effects.push({ tag: "seek", source: source.id, position });
    return {
      ...source,
      acknowledged: position,
      sent: position,
      // Positions of files count from the connection's beginning.
      counted: source.id === "stdout" ? Math.max(source.counted, position) : position,
      reading: { tag: "ready" },
    };
  });
  return {
    ...delivery,
    sources,
    connection: {
      tag: "open",
      windowBytes: windowBytes || FIRST_WINDOW_BYTES,
      heartbeatAt: now + heartbeatMs,
      answerUntil: undefined,
      exitReported: false,
      openedAt: now,
    },
  };
}

export function acknowledged(
  delivery: DeliveryState,
  { source: id, position, windowBytes }: EventOf<"acknowledged">,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "open") return delivery;
  // A busy worker has written more by now: reading at once is faster than waiting for a
  // notification.
  const after = grew(delivery, id);
  return {
    ...after,
    connection: { ...connection, windowBytes: windowBytes || connection.windowBytes },
    sources: after.sources.map((source) =>
      source.id === id
        ? { ...source, acknowledged: Math.max(source.acknowledged, position) }
        : source
    ),
  };
}

/** The daemon has sent something. */
export function heard(
  delivery: DeliveryState,
  { answerTimeoutMs }: DeliverySettings,
  now: number,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "open") return delivery;
  const waits = connection.exitReported || unacknowledged(delivery) > 0;
  return {
    ...delivery,
    connection: { ...connection, answerUntil: waits ? now + answerTimeoutMs : undefined },
  };
}

export function batchSent(
  delivery: DeliveryState,
  batch: EventOf<"batch_sent">,
  { answerTimeoutMs }: DeliverySettings,
  now: number,
  effects: Effects,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "open") return delivery;
  const sources = delivery.sources.map((source): Source => {
    const { reading } = source;
    if (source.id !== batch.source || reading.tag !== "reading") return source;
    if (source.id === "uploads") return { ...source, sent: batch.to, reading: { tag: "ready" } };
    if (isNew(source, batch)) {
      effects.push({ tag: "count_steps", steps: batch.steps, bytes: batch.bytes });
    }
    if (batch.bytes >= BUSY_BYTES) effects.push({ tag: "disarm_growth", source: source.id });
    return {
      ...source,
      sent: batch.to,
      counted: Math.max(source.counted, batch.to),
      reading: isSmall(batch, reading.most)
        ? { tag: "gathering", until: now + FLUSH_MS }
        : { tag: "ready" },
    };
  });
  return {
    ...delivery,
    sources,
    connection: { ...connection, answerUntil: connection.answerUntil ?? now + answerTimeoutMs },
  };
}

/** Whether the batch was not sent over an earlier connection. */
export function isNew(source: Source | undefined, batch: { to: number }): boolean {
  return source !== undefined && batch.to > source.counted;
}

export function caughtUp(
  delivery: DeliveryState,
  { source: id, final }: EventOf<"caught_up">,
  effects: Effects,
): DeliveryState {
  return withReading(delivery, id, (reading) => {
    if (reading.tag !== "reading") return reading;
    if (!final) effects.push({ tag: "arm_growth", source: id });
    return { tag: "caught_up", final };
  });
}

export function grew(delivery: DeliveryState, id: SourceId): DeliveryState {
  return withReading(
    delivery,
    id,
    (reading) => reading.tag === "caught_up" && !reading.final ? { tag: "ready" } : reading,
  );
}

function withReading(
  delivery: DeliveryState,
  id: SourceId,
  change: (reading: Reading) => Reading,
): DeliveryState {
  const sources = delivery.sources.map((source) => {
    const reading = source.id === id ? change(source.reading) : source.reading;
    return reading === source.reading ? source : { ...source, reading };
  });
  return { ...delivery, sources };
}

/**
 * Reads what the window allows. When everything is acknowledged after the worker's end, reports the
 * exit.
 * @param end undefined while more may come
 */
export function pump(
  delivery: DeliveryState,
  end: WorkerEnd | undefined,
  { answerTimeoutMs }: DeliverySettings,
  now: number,
  effects: Effects,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag !== "open") return delivery;
  const { windowBytes } = connection;
  const final = end !== undefined;
  // Large files must not delay records, so uploads have a window of their own.
  const records = delivery.sources.filter(({ id }) => id !== "uploads");
  const windowIsFree = unacknowledged({ sources: records }) < windowBytes;
  const sources = delivery.sources.map((source): Source => {
    const reading = due(source.reading, final, now);
    // Files are read at the pace at which they are stored: one batch at a time.
    const mayRead = source.id === "uploads"
      ? source.sent - source.acknowledged < UPLOAD_WINDOW_BYTES
      : windowIsFree && (source.id === "stdout" || source.sent <= source.acknowledged);
    if (reading.tag !== "ready" || !mayRead) {
      return reading === source.reading ? source : { ...source, reading };
    }
    const most = batchBytes(windowBytes);
    effects.push({ tag: "read", source: source.id, most, final });
    return { ...source, reading: { tag: "reading", most } };
  });
  const isDelivered = sources.every(({ reading, sent, acknowledged }) =>
    reading.tag === "caught_up" && reading.final && acknowledged >= sent
  );
  if (end === undefined || !isDelivered || connection.exitReported) return { ...delivery, sources };
  const finalPosition = sources.find(({ id }) => id === "stdout")?.sent ?? 0;
  effects.push({ tag: "send", message: { case: "exit", end, finalPosition } });
  return {
    ...delivery,
    sources,
    connection: {
      ...connection,
      exitReported: true,
      answerUntil: connection.answerUntil ?? now + answerTimeoutMs,
    },
  };
}

/** A gathering source whose time is over, or that must be read to its end now. */
function due(reading: Reading, final: boolean, now: number): Reading {
  const over = reading.tag === "gathering" && (final || reading.until <= now);
  const unfinished = reading.tag === "caught_up" && final && !reading.final;
  return over || unfinished ? { tag: "ready" } : reading;
}

/** Bytes that are sent and not acknowledged. */
export function unacknowledged({ sources }: Pick<DeliveryState, "sources">): number {
  return sources.reduce((sum, { sent, acknowledged }) => sum + Math.max(0, sent - acknowledged), 0);
}

/**
 * The connection is lost or given up. @param ended only the report is left: then a refused token
 * may be final.
 */
export function lost(
  delivery: DeliveryState,
  failure: Failure,
  ended: boolean,
  { refusedTokenTries }: DeliverySettings,
  now: number,
  effects: Effects,
): DeliveryState {
  const { connection } = delivery;
  if (
    connection.tag !== "connecting" && connection.tag !== "greeting" && connection.tag !== "open"
  ) return delivery;
  effects.push({ tag: "close" });
  const before = connection.tag === "open" ? NO_TRIES : connection.tries;
  const meaning = connection.tag === "connecting" ? "nothing" : meaningOf(failure);
  // Neither a welcome nor what is delivered before a read that fails again shortens the pauses
  // between such reads.
  const lasted = connection.tag === "open" && now - connection.openedAt >= LASTING_MS;
  const unreadable = (lasted ? 0 : delivery.unreadable) + (failure.unreadable ? 1 : 0);
  const failed = failure.unreadable ? unreadable : before.failed + 1;
  // While the worker lives, the token may still be corrected.
  const tokenRefused = before.tokenRefused + (meaning === "token_refused" ? 1 : 0);
  if (
    meaning === "over" ||
    (meaning === "token_refused" && ended && tokenRefused >= refusedTokenTries)
  ) {
    return { ...delivery, connection: { tag: "refused", reason: failure.message } };
  }
  effects.push({ tag: "await_daemon", error: failure.message, tries: failed });
  const until = now + delayAfter(failed);
  return {
    ...delivery,
    connection: { tag: "waiting", tries: { failed, tokenRefused }, until },
    unreadable,
  };
}

/** Why the connection must be given up at this time; undefined while it is good. */
export function timeout(
  { connection }: DeliveryState,
  { answerTimeoutMs }: DeliverySettings,
  now: number,
): string | undefined {
  if (connection.tag === "greeting" && connection.until <= now) {
    return `no welcome within ${WELCOME_TIMEOUT_MS / 1000} s`;
  }
  if (
    connection.tag !== "open" || connection.answerUntil === undefined ||
    connection.answerUntil > now
  ) {
    return undefined;
  }
  return `no answer for ${answerTimeoutMs / 1000} s`;
}

/** Connects again, or sends a heartbeat, when it is time. */
export function deliveryTick(
  delivery: DeliveryState,
  { heartbeatMs }: DeliverySettings,
  now: number,
  effects: Effects,
): DeliveryState {
  const { connection } = delivery;
  if (connection.tag === "waiting" && connection.until <= now) return connect(delivery, effects);
  if (connection.tag !== "open" || connection.heartbeatAt > now) return delivery;
  effects.push({ tag: "send", message: { case: "heartbeat" } });
  return { ...delivery, connection: { ...connection, heartbeatAt: now + heartbeatMs } };
}
