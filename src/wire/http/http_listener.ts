/**
 * A listener whose connections the runtime's own HTTP server serves, with a bound on how long each
 * may wait.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere, removeIfThere } from "../../os/files/files.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/time/sleep.ts";
import { pause } from "./waiting.ts";
import { type FileDescriptors, NEVER_SHORT } from "../../os/processes/descriptors.ts";
import { lacksDescriptors } from "../../os/processes/shortage.ts";
import { missingNet } from "../../permissions/missing.ts";

/**
 * HOST and PORT (0: a free one), or the path of a Unix socket, which is created again, for its
 * owner, or also for the group of a number.
 */
export type HttpAddress = { hostname: string; port: number } | { path: string; group?: number };
export type HttpHandler = (request: Request, connection: Ends) => Response | Promise<Response>;

/** The ends of a connection: the same object for all its requests. */
export interface Ends {
  readonly remoteAddr: Deno.Addr;
  readonly localAddr: Deno.Addr;
}

export interface HttpListenerOptions {
  address: HttpAddress;
  handler: HttpHandler;
  log: Logger;
  /** Then it serves HTTPS. Closed with the listener. */
  tls?: TlsEnd | undefined;
  /** In a shortage a TCP listener closes its connections, and accepts others afterwards. */
  descriptors?: FileDescriptors;
  /** Default: `WAITING`. */
  waiting?: Waiting;
}

/** A certificate chain and its key, PEM. */
export interface Pair {
  cert: string;
  key: string;
}

/** The server's end of TLS (src/wire/http/tls_upgrade.ts). */
export interface TlsEnd {
  /**
   * @returns a connection with the decrypted bytes; undefined if the peer leaves or makes no
   * handshake in time. `socket` is
   *   closed together with it; in the other case, before.
   */
  accept(socket: Deno.TcpConn): Promise<Deno.Conn | undefined>;
  /**
   * Uses this certificate for further handshakes. @throws if it cannot be used; the old one then
   * stays
   */
  renew(pair: Pair): void;
  close(): void;
}

export interface Waiting {
  headMs: number;
  idleMs: number;
  most: number;
}

export interface HttpListener {
  /** HOST:PORT, or the path of the socket. */
  address: string;
  /** Connections are accepted, as far as is known. */
  listening(): boolean;
  /**
   * Listens again if somebody has removed its Unix socket, through which nobody can connect then.
   * @returns whether it was so
   */
  renew(): boolean;
  /** Lets current answers finish, then closes. */
  stop(): Promise<void>;
}

const STOP_GRACE_MS = 2000;
const AGAIN_MS = 1000;
const ERROR_PAUSE_MS = 20;

/**
 * Bounds on connections without a current request. The runtime's server keeps a connection with an
 * incomplete request head for ever, so each connection is accepted and ended here.
 */
export const WAITING = {
  /** Time for the first request's whole head. */
  headMs: 15_000,
  /** Time for the next request's. */
  idleMs: 120_000,
  /** Number of connections of each of the two kinds; a further one replaces the oldest. */
  most: 512,
} as const;

/**
 * @throws MosaicError `unavailable` if the address is taken or not this machine's,
 * `permission_denied` if refused.
 */
export function listenHttp(options: HttpListenerOptions): HttpListener {
  const { log, tls, descriptors = NEVER_SHORT, waiting = WAITING } = options;
  const underWay = new UnderWay();
  const connections = new Connections(options.handler, underWay, log, waiting);
  let listener: Deno.Listener;
  try {
    listener = "path" in options.address
      ? listenSocket(options.address)
      : Deno.listen(options.address);
  } catch (error) {
    tls?.close();
    throw cannotListen(options.address, error);
  }
  const bound = boundAddress(options.address, listener);
  let socketFile = "path" in bound ? infoIfThere(bound.path)?.ino : undefined;
  const address = textOf(bound);
  let stopping = false;
  let listening = true;
  let renewing = false;
  // The socket is used by this daemon's own proxies and verbs, which are few and must get through.
  if ("port" in bound) descriptors.onShortage(() => connections.endAll());
  const take = async (socket: Deno.Conn) => {
    const { remoteAddr, localAddr } = socket;
    try {
      const inside = tls === undefined ? socket : await tls.accept(socket as Deno.TcpConn);
      if (inside !== undefined) connections.add(inside, { remoteAddr, localAddr });
    } catch (error) {
      log.warn({ address, error: messageOf(error) }, "a connection could not be served");
    }
  };
  /**
   * After `renew`, when the old listener has ended, because its end removes what is at its path.
   */
  const listenAnew = () => {
    if (!renewing || stopping || !("path" in bound)) return;
    try {
      listener = listenSocket(bound);
      socketFile = infoIfThere(bound.path)?.ino;
      renewing = false;
    } catch (error) {
      if (listening) {
        log.error({ address, error: messageOf(error) }, "cannot listen again yet; trying again");
      }
      listening = false;
    }
  };
  const accept = async () => {
    while (!stopping) {
      try {
        take(await listener.accept());
        if (listening) continue;
        listening = true;
        log.warn({ address }, "connections to this address are accepted again");
      } catch (error) {
        if (stopping) return;
        // A peer that has left affects nothing else.
        if (!lacksDescriptors(error)) {
          await sleep(ERROR_PAUSE_MS);
          listenAnew();
          continue;
        }
        if (listening) log.error({ address }, "connections wait: no file descriptor is free");
        listening = false;
        await sleep(AGAIN_MS);
      }
    }
  };
  accept();
  return {
    address,
    listening: () => listening,
    renew() {
      if (
        !("path" in bound) || stopping || renewing || infoIfThere(bound.path)?.ino === socketFile
      ) return false;
      renewing = true;
      listener.close();
      return true;
    },
    async stop() {
      stopping = true;
      listener.close();
      const done = new AbortController();
      await Promise.race([underWay.none(), pause(STOP_GRACE_MS, done.signal)]);
      done.abort();
      await connections.close();
      tls?.close();
      // Not another daemon's, if the state directory was replaced.
      if ("path" in bound && infoIfThere(bound.path)?.ino === socketFile) removeSocket(bound.path);
    },
  };
}

/** How the runtime serves one accepted connection; its own HTTP servers use it. */
interface Runtime {
  serveHttpOnConnection(
    connection: Deno.Conn,
    signal: Ending,
    handler: (request: Request, info: { completed: Promise<void> }) => Response | Promise<Response>,
    onError: (error: unknown) => Response,
    onListen: () => void,
  ): { finished: Promise<void> };
}
const { serveHttpOnConnection } = (Deno as unknown as Record<symbol, Runtime>)[
  (Deno as unknown as { internal: symbol }).internal
]!;

/**
 * Ends a connection: the parts of an AbortSignal that the runtime uses. A real one reports errors
 * of its listener as uncaught, and this listener throws if the connection has just ended by itself.
 */
class Ending {
  #listener: (() => void) | undefined;

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listener = listener;
  }

  abort(): void {
    try {
      this.#listener?.();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
    this.#listener = undefined;
  }
}

interface Connection {
  readonly end: Ending;
  readonly ended: Promise<void>;
  /** Number of requests in progress. */
  requests: number;
  /** When it began to wait. */
  since: number;
}

class Connections {
  readonly #handler: HttpHandler;
  readonly #underWay: UnderWay;
  readonly #log: Logger;
  readonly #bounds: Waiting;
  readonly #all = new Set<Connection>();
  /** Waiting connections, the longest first: for their first request, and for another. */
  readonly #fresh = new Set<Connection>();
  readonly #idle = new Set<Connection>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(handler: HttpHandler, underWay: UnderWay, log: Logger, bounds: Waiting) {
    this.#handler = handler;
    this.#underWay = underWay;
    this.#log = log;
    this.#bounds = bounds;
    this.#timer = setInterval(() => this.#endLate(), Math.min(1000, bounds.headMs));
    Deno.unrefTimer(this.#timer);
  }

  add(socket: Deno.Conn, ends: Ends): void {
    const end = new Ending();
    const onError = (error: unknown) => {
      this.#log.error({ err: messageOf(error) }, "an answer ended early");
      return new Response(null, { status: 500 });
    };
    const handler = (request: Request, { completed }: { completed: Promise<void> }) => {
      this.#began(connection);
      this.#underWay.add(completed);
      const over = () => this.#answered(connection);
      completed.then(over, over);
      return this.#handler(request, ends);
    };
    const { finished } = serveHttpOnConnection(socket, end, handler, onError, () => {});
    const connection: Connection = {
      end,
      ended: finished.catch(() => {}),
      requests: 0,
      since: performance.now(),
    };
    this.#all.add(connection);
    this.#wait(this.#fresh, connection);
    connection.ended.then(() => {
      for (const set of [this.#all, this.#fresh, this.#idle]) set.delete(connection);
    });
  }

  endAll(): void {
    for (const { end } of this.#all) end.abort();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const ends = [...this.#all].map(({ ended }) => ended);
    this.endAll();
    await Promise.all(ends);
  }

  #began(connection: Connection): void {
    connection.requests++;
    this.#fresh.delete(connection);
    this.#idle.delete(connection);
  }

  #answered(connection: Connection): void {
    if (--connection.requests > 0 || !this.#all.has(connection)) return;
    connection.since = performance.now();
    this.#wait(this.#idle, connection);
  }

  #wait(set: Set<Connection>, connection: Connection): void {
    set.add(connection);
    if (set.size > this.#bounds.most) this.#end(set, set.values().next().value!);
  }

  #endLate(): void {
    const now = performance.now();
    for (
      const [set, ms] of [[this.#fresh, this.#bounds.headMs], [
        this.#idle,
        this.#bounds.idleMs,
      ]] as const
    ) {
      for (const connection of set) {
        if (now - connection.since < ms) break;
        this.#end(set, connection);
      }
    }
  }

  #end(set: Set<Connection>, connection: Connection): void {
    set.delete(connection);
    connection.end.abort();
  }
}

/** Answers that are not completely sent. */
class UnderWay {
  #count = 0;
  #waiting: (() => void)[] = [];

  add(completed: Promise<void>): void {
    this.#count++;
    const over = () => {
      if (--this.#count === 0) this.#waiting.splice(0).forEach((resolve) => resolve());
    };
    completed.then(over, over);
  }

  none(): Promise<void> {
    return this.#count === 0
      ? Promise.resolve()
      : new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/**
 * The caller has the right to the path (by the state directory's lock), so an existing socket is a
 * leftover. It is never reused: children of a killed daemon may still hold its listener.
 */
export function listenSocket({ path, group }: { path: string; group?: number }): Deno.Listener {
  removeSocket(path);
  // Never 0777, not even for a moment: the umask applies while the file is created, the exact mode
  // is set afterwards.
  const before = Deno.umask(0o077);
  try {
    const listener = Deno.listen({ transport: "unix", path });
    if (group !== undefined) Deno.chownSync(path, null, group);
    Deno.chmodSync(path, group === undefined ? 0o600 : 0o660);
    return listener as Deno.Listener;
  } finally {
    Deno.umask(before);
  }
}

/** @throws MosaicError `unavailable` for a file that is no socket: it belongs to somebody else */
export function removeSocket(path: string): void {
  if (infoIfThere(path)?.isSocket === false) {
    throw new MosaicError(
      "unavailable",
      `cannot listen on ${path}: a file that is not a socket exists there`,
    );
  }
  removeIfThere(path);
}

function boundAddress(requested: HttpAddress, listener: Deno.Listener): HttpAddress {
  return "path" in requested
    ? requested
    : { hostname: requested.hostname, port: (listener.addr as Deno.NetAddr).port };
}

function textOf(address: HttpAddress): string {
  if ("path" in address) return address.path;
  const { hostname, port } = address;
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

function cannotListen(address: HttpAddress, error: unknown): unknown {
  if (error instanceof MosaicError) return error;
  const text = textOf(address);
  const refused = missingNet("path" in address ? `unix:${text}` : text);
  if (refused !== undefined) return refused;
  if (error instanceof Deno.errors.AddrInUse) {
    return new MosaicError("unavailable", `cannot listen on ${text}: the address is in use`, {
      hint:
        "Stop what listens there, or give --http HOST:PORT with another port (port 0 picks a free one).",
      cause: error,
    });
  }
  return new MosaicError("unavailable", `cannot listen on ${text}: ${messageOf(error)}`, {
    cause: error,
  });
}
