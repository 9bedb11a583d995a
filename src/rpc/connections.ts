/**
 * Bounds on connections. There are so many and no more, and one on which nobody calls within a time (a slow handshake, a
 * port scanner, a client that only holds it) is closed: clients connect again when they need to.
 */
import type { Server } from "@grpc/grpc-js";

export interface ConnectionLimits {
  /** Connections at one time; further ones are closed as they arrive. */
  connections: number;
  /** Milliseconds from the connection to its first call, TLS handshake included. */
  firstCallMs: number;
}

export const CONNECTION_DEFAULTS: ConnectionLimits = { connections: 2048, firstCallMs: 30_000 };

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

/** To be called when the server is bound. Closing it ends the timers with their connections. */
export function limitConnections(server: Server, limits: ConnectionLimits): void {
  // Private in grpc-js, which offers no such bounds itself; without it there are none, and calls still work.
  const listeners = (server as unknown as { http2Servers?: Map<Http2Server, unknown> }).http2Servers;
  for (const listener of listeners?.keys() ?? []) {
    listener.maxConnections = limits.connections;
    closeSilentOnes(listener, limits.firstCallMs);
  }
}

/** The same connection, seen as a TCP socket, a TLS socket or a session. Unix sockets have none: they are private. */
function keyOf(socket: Socket | undefined): string | undefined {
  try {
    return socket?.remotePort === undefined ? undefined : `${socket.remoteAddress} ${socket.remotePort}`;
  } catch {
    // Gone meanwhile.
    return undefined;
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
