/**
 * Bounds on connections. Beyond the limit a connection is let in, but calls on it are refused with the reason and it is
 * closed; only proxies are served there still, so that any number of viewers leaves training alone. At twice the limit
 * further ones are closed as they arrive. One on which nobody calls within a time (a slow handshake, a port scanner, a
 * client that only holds it) is closed: clients connect again when they need to.
 */
import type { Server } from "@grpc/grpc-js";
import { boundReached } from "../base/load_limits.ts";

export interface ConnectionLimits {
  /** Connections at one time on which everybody is served. */
  connections: number;
  /** Milliseconds from the connection to its first call, TLS handshake included. */
  firstCallMs: number;
}

export const FIRST_CALL_MS = 30_000;
/** Time for the refusal to arrive. */
const REFUSED_MS = 1000;

/** As many as are wanted, and no more than leave half of a process's descriptors to its work. */
export function connectionsWithin(wanted: number, descriptors: number | undefined): number {
  return Math.min(wanted, Math.max(16, Math.floor((descriptors ?? Infinity) / 4)));
}

interface Socket {
  remoteAddress?: string;
  remotePort?: number;
  destroy(): void;
  once(event: "close", listener: () => void): void;
}
interface Session {
  socket?: Socket;
  once(event: "stream", listener: () => void): void;
}
interface Http2Server {
  maxConnections?: number;
  on(event: "connection", listener: (socket: Socket) => void): void;
  on(event: "session", listener: (session: Session) => void): void;
}

/** The same connection, seen as a TCP socket, a TLS socket, a session or a call. Unix sockets have none: they are private. */
function keyOf(socket: Socket | undefined): string | undefined {
  try {
    return socket?.remotePort === undefined ? undefined : `${socket.remoteAddress}:${socket.remotePort}`;
  } catch {
    // Gone meanwhile.
    return undefined;
  }
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #watched = new WeakSet<Http2Server>();
  #open = 0;
  /** Those that came when there were enough. */
  readonly #beyond = new Map<string, { socket: Socket; closing?: ReturnType<typeof setTimeout> }>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  get open(): number {
    return this.#open;
  }

  /** To be called whenever the server is bound. Closing it ends the timers with their connections. */
  watch(server: Server): void {
    // Private in grpc-js, which offers no such bounds itself; without it there are none, and calls still work.
    const listeners = (server as unknown as { http2Servers?: Map<Http2Server, unknown> }).http2Servers;
    for (const listener of listeners?.keys() ?? []) {
      if (this.#watched.has(listener)) continue;
      this.#watched.add(listener);
      listener.maxConnections = 2 * this.#limits.connections;
      listener.on("connection", (socket) => this.#count(socket));
      closeSilentOnes(listener, this.#limits.firstCallMs);
    }
  }

  /**
   * Whether calls of anybody but a proxy are served on the connection.
   *
   * @param peer as grpc-js names it
   * @throws MosaicError `resource_exhausted`; the connection is closed then
   */
  admit(peer: string): void {
    const one = this.#beyond.get(peer);
    if (one === undefined) return;
    one.closing ??= setTimeout(() => one.socket.destroy(), REFUSED_MS);
    const { connections } = this.#limits;
    throw boundReached("maxConnections", connections, `${this.#open} connections are open`, "Close some");
  }

  #count(socket: Socket): void {
    this.#open++;
    const key = keyOf(socket);
    const beyond = this.#open > this.#limits.connections && key !== undefined;
    if (beyond) this.#beyond.set(key, { socket });
    socket.once("close", () => {
      this.#open--;
      if (!beyond) return;
      clearTimeout(this.#beyond.get(key)?.closing);
      this.#beyond.delete(key);
    });
  }
}

function closeSilentOnes(listener: Http2Server, firstCallMs: number): void {
  const silent = new Map<string, ReturnType<typeof setTimeout>>();
  const heard = (key: string) => {
    clearTimeout(silent.get(key));
    silent.delete(key);
  };
  listener.on("connection", (socket) => {
    const key = keyOf(socket);
    if (key === undefined) return;
    silent.set(key, setTimeout(() => socket.destroy(), firstCallMs));
    socket.once("close", () => heard(key));
  });
  listener.on("session", (session) => {
    const key = keyOf(session.socket);
    if (key !== undefined) session.once("stream", () => heard(key));
  });
}
