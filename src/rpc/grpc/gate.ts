/**
 * Bounded sends. The runtime's HTTP/2 has no send backpressure (docs/explanation/architecture.md):
 * data for a reader that reads nothing accumulates in native memory without bound. So every long
 * stream waits for this gate before its next message. Per connection, the bytes written by us are
 * compared with the socket's own count of sent bytes. Other bytes (headers, pings, window updates)
 * make the socket run ahead; the estimate is then set back to zero, so it can be low by such
 * overhead but never stays high. A stream whose connection sends nothing for `stallMs` is ended:
 * its client resumes by `since_seq`, and a stalled reader does not block others on its connection
 * for longer than that.
 */
import { StalledError } from "../call/handlers.ts";

export interface GateLimits {
  /**
   * Bound on unsent bytes of one connection; beyond it its streams wait, until less than half of it
   * is unsent.
   */
  connectionBytes: number;
  /** Bound on unsent bytes of all connections; beyond it all streams wait. */
  processBytes: number;
  /** How long a stream may wait while its connection sends nearly nothing, milliseconds. */
  stallMs: number;
}

const GATE_DEFAULTS: GateLimits = {
  connectionBytes: 256 << 10,
  processBytes: 64 << 20,
  stallMs: 60_000,
};

/** A reader that reads this much within the stall limit counts as slow, not as stalled. */
const PROGRESS_BYTES = 32 << 10;
/** Poll interval for waiting readers. A stalled reader is polled less and less often. */
const POLL_MS = 2;
const SELDOM_MS = 64;

/** The socket's count of bytes sent; undefined if the connection is closed. */
export type SentBytes = () => number | undefined;

/** The state of one connection. */
class Connection {
  readonly key: object;
  /** Bytes written minus bytes sent at the last poll, never below zero. */
  unsent = 0;
  streams = 0;
  closed = false;
  readonly #sent: SentBytes;
  #lastSent: number;

  constructor(key: object, sent: SentBytes) {
    this.key = key;
    this.#sent = sent;
    this.#lastSent = sent() ?? 0;
  }

  /** Subtracts what the socket has sent since the last poll. */
  poll(): void {
    const sent = this.#sent();
    if (sent === undefined) {
      this.closed = true;
      this.unsent = 0;
      return;
    }
    this.unsent = Math.max(0, this.unsent - (sent - this.#lastSent));
    this.#lastSent = sent;
  }
}

/** One stream's access to its connection. */
export class StreamGate {
  readonly #gates: SendGates;
  readonly #connection: Connection;
  /** Upper bound of this stream's share of the connection's unsent bytes. */
  #share = 0;
  #released = false;

  constructor(gates: SendGates, connection: Connection) {
    this.#gates = gates;
    this.#connection = connection;
    connection.streams++;
  }

  /** Accounts for a message that was written. */
  wrote(bytes: number): void {
    this.#share += bytes;
    this.#connection.unsent += bytes;
    this.#gates.total += bytes;
  }

  /**
   * Undefined when the next message may be written now; otherwise resolves when it may.
   * @throws MosaicError `unavailable` when nothing moved for the stall limit.
   */
  ready(): Promise<void> | undefined {
    if (!this.#gates.full(this.#connection)) return undefined;
    this.#gates.refresh(this.#connection);
    if (this.#connection.unsent === 0) this.#share = 0;
    if (!this.#gates.full(this.#connection)) return undefined;
    return this.#gates.wait(this.#connection);
  }

  /** Ends the stream's use of the gate; its unsent bytes no longer count. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#gates.refresh(this.#connection);
    const dropped = Math.min(this.#share, this.#connection.unsent);
    this.#connection.unsent -= dropped;
    this.#gates.total -= dropped;
    this.#gates.left(this.#connection);
  }
}

interface Waiter {
  connection: Connection;
  /** Start of the wait, or time of its last progress. */
  since: number;
  /** The connection's unsent bytes at that time. */
  unsent: number;
  resolve(): void;
  reject(error: Error): void;
}

/** The gates of one server, which share the bound on the process. */
export class SendGates {
  readonly limits: GateLimits;
  /** Unsent bytes over all connections. */
  total = 0;
  /** Connections with an open stream. */
  readonly #connections = new Map<object, Connection>();
  readonly #waiters = new Set<Waiter>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer is due. */
  #due = Infinity;

  constructor(limits: Partial<GateLimits> = {}) {
    this.limits = { ...GATE_DEFAULTS, ...limits };
  }

  /** @param key the connection's identity (its HTTP/2 session). */
  open(key: object, sent: SentBytes): StreamGate {
    let connection = this.#connections.get(key);
    if (connection === undefined) {
      this.#connections.set(key, connection = new Connection(key, sent));
    }
    return new StreamGate(this, connection);
  }

  /** Number of waiting streams. */
  get waiting(): number {
    return this.#waiters.size;
  }

  full(connection: Connection): boolean {
    const { connectionBytes, processBytes } = this.limits;
    return !connection.closed &&
      (connection.unsent >= connectionBytes || this.total >= processBytes);
  }

  refresh(connection: Connection): void {
    const before = connection.unsent;
    connection.poll();
    this.total -= before - connection.unsent;
  }

  /** A stream of the connection is over; with the last one its account is removed. */
  left(connection: Connection): void {
    if (--connection.streams > 0) return;
    this.total -= connection.unsent;
    connection.unsent = 0;
    this.#connections.delete(connection.key);
  }

  wait(connection: Connection): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.add({
        connection,
        since: performance.now(),
        unsent: connection.unsent,
        resolve,
        reject,
      });
      this.#pollWithin(POLL_MS);
    });
  }

  #pollWithin(ms: number): void {
    const due = performance.now() + ms;
    if (due >= this.#due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#poll(), ms);
  }

  #poll(): void {
    this.#due = Infinity;
    for (const connection of this.#connections.values()) this.refresh(connection);
    const now = performance.now();
    const progress = Math.min(PROGRESS_BYTES, this.limits.connectionBytes / 2);
    for (const waiter of this.#waiters) {
      const { unsent } = waiter.connection;
      if (waiter.unsent - unsent >= progress) {
        waiter.since = now;
        waiter.unsent = unsent;
      }
      if (this.#mayGoOn(waiter.connection)) {
        this.#waiters.delete(waiter);
        waiter.resolve();
      } else if (now - waiter.since >= this.limits.stallMs) {
        this.#waiters.delete(waiter);
        waiter.reject(new StalledError(this.limits.stallMs));
      }
    }
    const waited = Math.min(...[...this.#waiters].map(({ since }) => now - since));
    if (this.#waiters.size > 0) {
      this.#pollWithin(Math.min(SELDOM_MS, Math.max(POLL_MS, waited / 4)));
    }
  }

  /** Half of the bound must be free again, so that a few other bytes do not count as progress. */
  #mayGoOn(connection: Connection): boolean {
    const { connectionBytes, processBytes } = this.limits;
    return connection.closed ||
      (connection.unsent < connectionBytes / 2 && this.total < processBytes);
  }
}
