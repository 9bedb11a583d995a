/**
 * gRPC for the original's clients. Loading its library takes half as much memory and time as the
 * rest of the daemon, so it is loaded when the first connection arrives.
 */
import type { Socket } from "node:net";
import { messageOf } from "../../base/errors.ts";
import { type FileDescriptors, NEVER_SHORT } from "../../os/processes/descriptors.ts";
import { type ListenAddress, parseListen } from "../../wire/address/address.ts";
import { checkListener, type TlsTexts } from "../../wire/address/tls.ts";
import type { User } from "../call/peer.ts";
import type { Services } from "../services.ts";
import { Connections, FIRST_CALL_MS } from "./connections.ts";
import { type GateLimits, SendGates } from "./gate.ts";
import { bind, type Bound } from "./listen.ts";
import { type ListenerWatch, watchListener } from "./listener_watch.ts";
import type { GrpcServer } from "./server.ts";

const STOP_GRACE_MS = 5000;
/** Second address if the listener uses TLS: for workers of this machine that do not support it. */
const LOCAL: ListenAddress = { type: "tcp", host: "127.0.0.1", port: 0 };

export interface GrpcOptions {
  /** `HOST:PORT` (port 0 picks a free one) or `unix:PATH`. */
  listen: string;
  /** TLS for `listen`; without it connections are plain. */
  tls?: TlsTexts;
  gate?: Partial<GateLimits>;
  /** Milliseconds that a connection may stay without a call. */
  firstCallMs?: number;
  /** Called for each closed connection, because the runtime retains some memory of it. */
  onClosed?: () => void;
  /** New connections wait while descriptors are short. */
  descriptors?: FileDescriptors;
  /** Identifies the peer of a connection; without it, no peer is known. */
  userOf?: ((connection: Accepted) => User | Promise<User>) | undefined;
}

/** A connection that was accepted. */
export interface Accepted {
  socket: Socket;
  type: ListenAddress["type"];
  /** It uses TLS, and has shown a certificate if the listener requires one. */
  secured: boolean;
}

export interface GrpcListener {
  /** The address for clients: `HOST:PORT` or `unix:PATH`. */
  address: string;
  /** Address without TLS, for this machine only; equal to `address` if that is without TLS. */
  localAddress: string;
  /** False while the watch has found that no connections are accepted. */
  listening(): boolean;
  /**
   * New connections get this certificate. @throws MosaicError if it cannot be used; the old one
   * then stays
   */
  renew(tls: TlsTexts): Promise<void>;
  /** Ends streams (`unavailable`), lets current calls finish for at most `graceMs`, then closes. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * @throws MosaicError `invalid_argument` for an invalid listen address, `unavailable` if it is
 * taken, `permission_denied` if
 *   the runtime refuses it, `failed_precondition` if it would be open to other machines.
 */
export async function listenGrpc(services: Services, options: GrpcOptions): Promise<GrpcListener> {
  const { tls, descriptors = NEVER_SHORT } = options;
  const { log, gatekeeper } = services.context;
  checkListener({ listen: options.listen, tls, auth: gatekeeper === undefined ? "none" : "token" });
  const connections = new Connections({
    connections: services.bounds.maxConnections,
    firstCallMs: options.firstCallMs ?? FIRST_CALL_MS,
  }, new SendGates(options.gate));
  let loading: Promise<GrpcServer> | undefined;
  const load = (): Promise<GrpcServer> =>
    loading ??= import("./server.ts").then(({ createGrpcServer }) =>
      createGrpcServer(services, connections, tls)
    );
  const ends: (() => Promise<void>)[] = [];
  const watches: ListenerWatch[] = [];
  const listenOn = async (at: ListenAddress, plain: boolean): Promise<string> => {
    let accepted = 0;
    const take = (socket: Socket) => {
      accepted++;
      if (!connections.add(socket, () => options.onClosed?.())) return;
      Promise.all([load(), options.userOf?.({ socket, type: at.type, secured: !plain })]).then(
        ([server, user]) => {
          if (socket.destroyed) return;
          if (user !== undefined) connections.identify(socket, user);
          server.take(socket, plain);
        },
        (error) => {
          log.error({ error: messageOf(error) }, "gRPC cannot be served");
          socket.destroy();
        },
      );
    };
    let bound: Bound = await bind(at, take);
    const { address, port } = bound;
    let watch: ListenerWatch | undefined;
    if (port !== undefined) {
      const relisten = async () => {
        bound.close();
        bound = await bind(parseListen(address), take);
      };
      watch = watchListener({ port, accepted: () => accepted, relisten, log, descriptors });
      watches.push(watch);
    }
    ends.push(async () => {
      // While the watch polls, it may bind another listener.
      await watch?.stop();
      bound.close();
    });
    return address;
  };
  const end = () => Promise.all(ends.splice(0).map((end) => end()));
  let address: string;
  let localAddress: string;
  try {
    // Detects an unusable certificate at the start.
    if (tls !== undefined) await load();
    address = await listenOn(parseListen(options.listen), tls === undefined);
    localAddress = tls === undefined ? address : await listenOn(LOCAL, true);
  } catch (error) {
    await end();
    throw error;
  }
  services.address = address;

  let stopped: Promise<void> | undefined;
  return {
    address,
    localAddress,
    renew: async (texts) => (await load()).renew(texts),
    listening: () => watches.every((watch) => watch.listening()),
    stop(graceMs = STOP_GRACE_MS) {
      return stopped ??= (async () => {
        services.stop();
        await end();
        await (await loading?.catch(() => undefined))?.stop(graceMs);
        connections.close();
      })();
    },
  };
}
