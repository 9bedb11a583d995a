/**
 * gRPC's connections: their peers, and bounds on them. Beyond the limit a connection is accepted,
 * but calls on it are refused with the reason and it is closed. At twice the limit further ones are
 * closed as they arrive. A connection without a call within a time (a slow handshake, a port
 * scanner, an idle client) is closed: clients connect again when they need to.
 */
import type { Socket } from "node:net";
import { boundReached } from "../../base/load_limits.ts";
import { type Peer, UNIX_PEER, type User } from "../call/peer.ts";
import type { SendGates, StreamGate } from "./gate.ts";

export interface ConnectionLimits {
  /** Connections at one time on which calls are served. */
  connections: number;
  /** Milliseconds from the connection to its first call, TLS handshake included. */
  firstCallMs: number;
}

export const FIRST_CALL_MS = 30_000;
/** Time to deliver the refusal. */
const REFUSED_MS = 1000;

/**
 * The wanted number of connections, reduced so that twice as many use at most half of the process's
 * descriptors.
 */
export function connectionsWithin(wanted: number, descriptors: number | undefined): number {
  return Math.min(wanted, Math.max(16, Math.floor((descriptors ?? Infinity) / 4)));
}

const UNKNOWN_USER: User = { owner: false };

interface Connection {
  socket: Socket;
  /** The limit was reached when it arrived. */
  beyond: boolean;
  user: User;
  /** Timer that closes it if no call arrives. */
  silence: ReturnType<typeof setTimeout>;
  /** Timer that closes it soon after the first refusal. */
  refusal: ReturnType<typeof setTimeout> | undefined;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #gates: SendGates;
  /** By their peer's name, as grpc-js gives it for a call. */
  readonly #open = new Map<string, Connection>();
  #ofUnix = 0;

  constructor(limits: ConnectionLimits, gates: SendGates) {
    this.#limits = limits;
    this.#gates = gates;
  }

  /**
   * @param onClosed called when it has closed @returns false if there were too many connections,
   * and it was closed
   */
  add(socket: Socket, onClosed: () => void): boolean {
    const { connections, firstCallMs } = this.#limits;
    // Until its session is created, nothing else handles an error, which would end the process.
    socket.on("error", () => {});
    if (this.#open.size >= 2 * connections) {
      socket.destroy();
      return false;
    }
    const name = this.#nameOf(socket);
    const connection: Connection = {
      socket,
      beyond: this.#open.size >= connections,
      user: UNKNOWN_USER,
      silence: setTimeout(() => socket.destroy(), firstCallMs),
      refusal: undefined,
    };
    this.#open.set(name, connection);
    socket.once("close", () => {
      clearTimeout(connection.silence);
      clearTimeout(connection.refusal);
      this.#open.delete(name);
      onClosed();
    });
    return true;
  }

  /**
   * A call has arrived on the connection. @throws MosaicError `resource_exhausted` if there are too
   * many; the connection is then closed
   */
  admit(peer: string): void {
    const connection = this.#open.get(peer);
    if (connection === undefined) return;
    clearTimeout(connection.silence);
    if (!connection.beyond) return;
    const { connections } = this.#limits;
    connection.refusal ??= setTimeout(() => connection.socket.destroy(), REFUSED_MS);
    throw boundReached(
      "maxConnections",
      connections,
      `${this.#open.size} connections are open`,
      "Close some",
    );
  }

  /** Sets the connection's user, for all further calls. */
  identify(socket: Socket, user: User): void {
    const connection = this.#open.get(`${socket.remoteAddress}:${socket.remotePort}`);
    if (connection?.socket === socket) connection.user = user;
  }

  /** @param name of the peer, as grpc-js gives it for a call */
  peerOf(name: string): Peer {
    return { name, ...(this.#open.get(name)?.user ?? UNKNOWN_USER) };
  }

  /** The gate for a stream that writes to the connection. */
  gate(peer: string): StreamGate | undefined {
    const socket = this.#open.get(peer)?.socket;
    return socket &&
      this.#gates.open(socket, () => socket.destroyed ? undefined : socket.bytesWritten);
  }

  /** Closes the connection, and drops everything unsent. */
  drop(peer: string): void {
    this.#open.get(peer)?.socket.destroy();
  }

  /** Closes all. */
  close(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  /**
   * Connections of Unix sockets have no addresses; each gets one, which grpc-js then reports for
   * its calls.
   */
  #nameOf(socket: Socket): string {
    if (socket.remotePort === undefined) {
      Object.defineProperties(socket, {
        remoteAddress: { value: UNIX_PEER },
        remotePort: { value: ++this.#ofUnix },
      });
    }
    return `${socket.remoteAddress}:${socket.remotePort}`;
  }
}
