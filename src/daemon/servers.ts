/** The daemon's listeners, started together or not at all. */
import { gatekeeper } from "../rpc/auth/gatekeeper.ts";
import { parseListen } from "../wire/address/address.ts";
import { type Auth, checkListener, readTls, type TlsFiles } from "../wire/address/tls.ts";
import { pageLogin } from "../ui/page_login.ts";
import { TokenFile } from "../wire/tokens.ts";
import type { Bounds } from "../base/load_limits.ts";
import type { Core } from "../dispatch/core/core.ts";
import { ownersOf } from "../dispatch/own/owner_checks.ts";
import { MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { tlsSocket } from "../os/files/socket_path.ts";
import { descriptorLimit, type FileDescriptors } from "../os/processes/descriptors.ts";
import { PeerOwners, type TcpEnd } from "../os/host/socket_owners.ts";
import { connectionsWithin } from "../rpc/grpc/connections.ts";
import type { Readiness } from "../observability/readiness.ts";
import { MlflowApi } from "../mlflow/tracking_api.ts";
import { apiOf, servicesOf } from "../rpc/services.ts";
import { createApp } from "../ui/app.ts";
import {
  type Ends,
  type HttpListener,
  type HttpListenerOptions,
  listenHttp,
  WAITING,
  type Waiting,
} from "../wire/http/http_listener.ts";
import type { TlsBounds } from "../wire/http/tls_upgrade.ts";
import { DAEMON_EXIT, StartFailure } from "./start/exit_codes.ts";
import { front, type FrontOptions, GROUP_PEER } from "./front.ts";
import { groupOfSocket, type GroupSocket } from "./start/group_socket.ts";
import { LogFile } from "./start/log_file.ts";
import type { User } from "../rpc/call/peer.ts";
import { Audit } from "../wire/audit.ts";

export interface Servers {
  /** Address that clients dial; "" if off. */
  listen: string;
  /** gRPC address on this host without TLS, for workers. */
  local: string;
  http: string;
  /** Path of the Unix socket that serves the page and the API to the daemon's user. */
  socket: string;
  /**
   * Reads the certificates again, for new connections. @throws MosaicError when they cannot be
   * used; the old ones stay then
   */
  renew(): Promise<void>;
  /** Listens again on Unix sockets whose files somebody has removed. @returns their paths */
  renewSockets(): string[];
  stop(): Promise<void>;
}

export interface ServerOptions {
  listen: string;
  http: string;
  socket: string;
  groupSocket?: GroupSocket | undefined;
  auth: Auth;
  tls: TlsFiles | undefined;
  /** Path of the token file; need not exist. */
  tokensFile: string;
  auditFile: string;
  bounds: Bounds;
  log: Logger;
  readiness: (listeners: { listening: boolean }) => Readiness;
  descriptors?: FileDescriptors;
}

/** @throws StartFailure (usage, addressTaken) */
export async function startServers(core: Core, options: ServerOptions): Promise<Servers> {
  const stops: (() => void | Promise<void>)[] = [];
  try {
    return await start(core, options, stops);
  } catch (error) {
    for (const stop of stops) await stop();
    if (!(error instanceof MosaicError)) throw error;
    const isUsage = error.code === "invalid_argument" || error.code === "failed_precondition";
    const code = isUsage ? DAEMON_EXIT.usage : DAEMON_EXIT.addressTaken;
    throw new StartFailure(code, error.message, error.hint);
  }
}

/** @param stops filled with the stop function of each started part */
async function start(
  core: Core,
  options: ServerOptions,
  stops: (() => void | Promise<void>)[],
): Promise<Servers> {
  checkPage(options);
  const { log, descriptors, bounds } = options;
  const listeners: { listening(): boolean }[] = [];
  const readiness = () =>
    options.readiness({ listening: listeners.every((listener) => listener.listening()) });
  const tokens = options.auth === "none"
    ? undefined
    : new TokenFile(options.tokensFile, { create: options.auth === "token" });
  const audit = new Audit(new LogFile(options.auditFile, { maxBytes: 4 << 20, kept: 3 }).write);
  const known = options.auth === "user" ? knownPeers() : undefined;
  const maxConnections = connectionsWithin(bounds.maxConnections, descriptorLimit());
  const keeper = tokens && gatekeeper(core.runs, tokens, ownersOf(core));
  const services = servicesOf(core, {
    log,
    bounds: { ...bounds, maxConnections },
    ready: () => readiness().ready,
    audit,
    gatekeeper: keeper,
  });
  stops.push(() => services.stop());
  const tls = options.tls && readTls(options.tls);
  const grpc = options.listen === "none"
    ? undefined
    : await (await import("../rpc/grpc/listener.ts")).listenGrpc(services, {
      listen: options.listen,
      tls,
      descriptors,
      userOf: known &&
        (({ socket, type, secured }) =>
          type === "unix" || (secured && tls?.ca !== undefined) ? { owner: true } : known(
            { address: socket.remoteAddress!, port: socket.remotePort! },
            { address: socket.localAddress!, port: socket.localPort! },
          )),
      onClosed: () => void core.activity.closedGrpcConnections++,
    });
  stops.push(() => grpc?.stop(0));
  const api = apiOf(services);
  const login = tokens && pageLogin(tokens, { secure: options.tls !== undefined });
  const bound = options.http === "none" ? undefined : hostAndPort(options.http);
  const page = createApp(core, {
    log,
    maxStreams: bounds.maxPageStreams,
    logLines: bounds.logLines,
    readiness,
    bound: bound?.hostname ?? "",
    audit,
    ...(login === undefined ? {} : { authenticate: login.authenticate, logIn: login.handle }),
  });
  stops.push(() => page.stop());
  const frontOptions: FrontOptions = {
    api,
    mlflow: new MlflowApi(core, keeper?.requireOwnRun),
    page,
    bound: bound?.hostname ?? "",
    tokens: tokens !== undefined,
    userOf: known && oncePerConnection(known),
  };
  const handler = front(frontOptions);
  const maxDescriptors = descriptorLimit();
  const waiting = waitingWithin(maxDescriptors);
  const socket = listenHttp({
    address: { path: options.socket },
    handler,
    log,
    descriptors,
    waiting,
  });
  stops.push(() => socket.stop());
  const group = options.groupSocket && await listenForGroup(options.groupSocket, options, {
    handler: front({ ...frontOptions, socketPeer: GROUP_PEER }),
    log,
    descriptors,
    waiting,
  });
  stops.push(() => group?.stop());
  const byTls = tlsBounds(bounds.maxConnections, maxDescriptors);
  const secure = bound && tls &&
    new (await import("../wire/http/tls_upgrade.ts")).TlsUpgrade(
      tls,
      tlsSocket(options.socket),
      byTls,
      () =>
        log.warn(
          { open: byTls.open },
          "too many TLS connections are open: further ones are closed, until some end (--max-connections)",
        ),
    );
  const http = bound &&
    listenHttp({
      address: bound,
      handler,
      log,
      descriptors,
      waiting: secure ? byTls : waiting,
      tls: secure,
    });
  for (const listener of [grpc, socket, group, http]) {
    if (listener !== undefined) listeners.push(listener);
  }
  return {
    listen: grpc?.address ?? "",
    local: grpc?.localAddress ?? "",
    http: http?.address ?? "",
    socket: socket.address,
    async renew() {
      if (options.tls === undefined) return;
      const texts = readTls(options.tls);
      await grpc?.renew(texts);
      secure?.renew(texts);
    },
    renewSockets: () => [socket, group].flatMap((one) => one?.renew() ? [one.address] : []),
    async stop() {
      services.stop();
      page.stop();
      await Promise.all([grpc?.stop(), http?.stop(), group?.stop(), socket.stop()]);
    },
  };
}

function waitingWithin(descriptors: number | undefined): Waiting {
  return { ...WAITING, most: connectionsWithin(WAITING.most, descriptors) };
}

/** Bounds on connections with TLS, each of which uses three descriptors. */
export function tlsBounds(
  maxConnections: number,
  descriptors: number | undefined,
): Waiting & TlsBounds {
  const open = connectionsWithin(maxConnections, descriptors && descriptors / 3);
  // A connection waits for a handshake, for a first request or for another one. Each of these three
  // kinds gets at most a quarter, so a quarter is left for connections with a request.
  return { ...WAITING, open, most: Math.min(WAITING.most, Math.max(1, Math.floor(open / 4))) };
}

/** @throws StartFailure (usage), MosaicError `unavailable` when another process listens there */
async function listenForGroup(
  { group, path }: GroupSocket,
  { auth }: ServerOptions,
  options: Omit<HttpListenerOptions, "address">,
): Promise<HttpListener> {
  if (auth === "none") {
    throw new MosaicError(
      "invalid_argument",
      "--group-socket requires a token from everybody, --auth none from nobody: remove one of them",
    );
  }
  const gid = groupOfSocket({ group, path });
  await (await import("../rpc/grpc/listen.ts")).removeStaleSocket(path, "--group-socket");
  return listenHttp({ ...options, address: { path, group: gid } });
}

type Known = (peer: TcpEnd, local: TcpEnd) => Promise<User>;

/** Identifies the daemon's own user by what the kernel knows of sockets. */
function knownPeers(): Known {
  const owners = new PeerOwners();
  const own = Deno.uid();
  return async (peer, local) => {
    const uid = await owners.of(peer, local);
    return { owner: own !== null && uid === own, uid };
  };
}

/**
 * A socket's user never changes. An unknown one is asked for again at the connection's next
 * request.
 */
export function oncePerConnection(known: Known): (ends: Ends) => Promise<User> {
  const users = new WeakMap<Ends, User>();
  const end = ({ hostname: address, port }: Deno.NetAddr) => ({ address, port });
  return async (ends) => {
    const before = users.get(ends);
    if (before !== undefined) return before;
    const user = await known(
      end(ends.remoteAddr as Deno.NetAddr),
      end(ends.localAddr as Deno.NetAddr),
    );
    if (user.uid !== undefined) users.set(ends, user);
    return user;
  };
}

/**
 * Whether processes of the daemon's user, including sandboxed ones, may call over TCP without a
 * token.
 */
export function isOpenToOwnUser(
  { auth, http, listen }: Pick<ServerOptions, "auth" | "http" | "listen">,
): boolean {
  return auth !== "token" &&
    (http !== "none" || (listen !== "none" && !listen.startsWith("unix:")));
}

/** @param text HOST:PORT, checked by the options */
function hostAndPort(text: string): { hostname: string; port: number } {
  const address = parseListen(text);
  if (address.type === "unix") throw new Error(`--http is never a Unix socket: ${text}`);
  return { hostname: address.host.replace(/^\[|\]$/g, ""), port: address.port };
}

/**
 * The page can run programs as the daemon's user. Browsers have no client certificate, so beyond
 * loopback it needs a token.
 */
function checkPage({ http, auth, tls }: ServerOptions): void {
  if (http === "none") return;
  checkListener({ listen: http, auth, tls: tls && { cert: tls.cert, key: tls.key } }, "--http");
}
