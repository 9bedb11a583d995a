/** A listener of the runtime's own HTTP server, which begins again by itself when it was lost for want of descriptors. */
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import { pause } from "./waiting.ts";
import { type FileDescriptors, NEVER_SHORT } from "../os/descriptors.ts";
import { missingNet } from "../permissions/missing.ts";

/** HOST and PORT (0 picks a free one), or the path of a Unix socket, which is made anew. */
export type HttpAddress = { hostname: string; port: number } | { path: string };
export type HttpHandler = (request: Request, info: Deno.ServeHandlerInfo) => Response | Promise<Response>;

export interface HttpListenerOptions {
  address: HttpAddress;
  handler: HttpHandler;
  log: Logger;
  /** Certificate and key in PEM: it then speaks HTTPS. */
  tls?: { cert: string; key: string };
  /** In a shortage a TCP listener gives up its connections, and listens again afterwards. */
  descriptors?: FileDescriptors;
}

export interface HttpListener {
  /** HOST:PORT, or the path of the socket. */
  address: string;
  /** Connections are accepted, as far as is known. */
  listening(): boolean;
  /** New connections get this certificate. @throws MosaicError where it cannot be used; the old one stays then */
  renew(tls: { cert: string; key: string }): void;
  /** Lets answers that are on their way finish, and closes. */
  stop(): Promise<void>;
}

const STOP_GRACE_MS = 2000;
const AGAIN_MS = 1000;

/** @throws MosaicError `unavailable` when the address is taken or not this machine's, `permission_denied` when refused. */
export function listenHttp(options: HttpListenerOptions): HttpListener {
  const { log, descriptors = NEVER_SHORT } = options;
  let { tls } = options;
  const underWay = new UnderWay();
  const handler: HttpHandler = (request, info) => {
    underWay.add(info.completed);
    return options.handler(request, info);
  };
  let abort = new AbortController();
  const listen = (address: HttpAddress): Deno.HttpServer => {
    const common = {
      signal: abort.signal,
      onListen: () => {},
      onError: (error: unknown) => {
        log.error({ err: messageOf(error) }, "an answer broke off");
        return new Response(null, { status: 500 });
      },
    };
    if ("path" in address) return serveSocket(address.path, common, handler);
    // One with TLS may be followed by another while it still has the port.
    return Deno.serve({ ...address, ...common, ...(tls === undefined ? {} : { ...tls, reusePort: true }) }, handler);
  };
  let server: Deno.HttpServer;
  try {
    if (tls !== undefined) refuseTaken(options.address);
    server = listen(options.address);
  } catch (error) {
    throw cannotListen(options.address, error);
  }
  const bound = boundAddress(options.address, server);
  let stopping = false;
  let listening = true;
  // The socket brings this daemon's own proxies and verbs, which are few and must get through.
  if ("port" in bound) descriptors.onShortage(() => abort.abort());
  /** Serving ends by itself, too, when no file descriptor is left for a connection; what it held then is not let go. */
  const serveOn = async () => {
    while (!stopping) {
      const current = server;
      const why = await current.finished.then(() => "no file descriptor is left", messageOf);
      if (stopping || server !== current) return;
      log.error(
        { address: textOf(bound), error: why },
        "this address is served no longer; it is again as soon as it can be",
      );
      listening = false;
      abort.abort();
      for (let back = false; !back && !stopping;) {
        await sleep(AGAIN_MS);
        if (stopping || descriptors.check()) continue;
        try {
          abort = new AbortController();
          server = listen(bound);
          back = listening = true;
        } catch {
          // The port is taken meanwhile.
        }
      }
      if (!stopping) log.warn({ address: textOf(bound) }, "this address is served again");
    }
  };
  serveOn();
  return {
    address: textOf(bound),
    listening: () => listening,
    renew(pair) {
      const before = { tls, abort, server };
      tls = pair;
      abort = new AbortController();
      try {
        server = listen(bound);
      } catch (error) {
        ({ tls, abort } = before);
        throw cannotListen(bound, error);
      }
      serveOn();
      // It takes no more connections; those that it has live on.
      before.server.shutdown().catch(() => {});
    },
    async stop() {
      stopping = true;
      // The runtime's own orderly shutdown waits for clients that keep a connection, and cannot be cut short any more.
      const done = new AbortController();
      await Promise.race([underWay.none(), pause(STOP_GRACE_MS, done.signal)]);
      done.abort();
      abort.abort();
      await server.finished.catch(() => {});
      if ("path" in bound) removeSocket(bound.path);
    },
  };
}

/** Listeners that share a port would not notice another daemon's. @throws where the address is taken */
function refuseTaken(address: HttpAddress): void {
  if ("port" in address && address.port !== 0) Deno.listen(address).close();
}

/** Answers that are not sent to their end. */
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
    return this.#count === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }
}

type Common = { signal: AbortSignal; onListen: () => void; onError: (error: unknown) => Response };

/**
 * Whoever listens here has the right to the path (the state directory's lock), so that what is there was left behind. It is
 * never used again: children of a daemon that was killed may still hold the listener that it belonged to.
 */
function serveSocket(path: string, common: Common, handler: HttpHandler): Deno.HttpServer {
  removeSocket(path);
  // Not 0777 for any moment: the mask holds while the file is made, the mode is exact afterwards.
  const before = Deno.umask(0o077);
  let server: Deno.HttpServer;
  try {
    server = Deno.serve({ path, ...common }, handler as (request: Request) => Response | Promise<Response>);
  } finally {
    Deno.umask(before);
  }
  Deno.chmodSync(path, 0o600);
  return server;
}

/** @throws MosaicError `unavailable` for a file that is no socket: it is somebody's */
function removeSocket(path: string): void {
  try {
    if (!Deno.lstatSync(path).isSocket) {
      throw new MosaicError("unavailable", `cannot listen on ${path}: a file that is no socket is in the way`);
    }
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function boundAddress(asked: HttpAddress, server: Deno.HttpServer): HttpAddress {
  return "path" in asked ? asked : { hostname: asked.hostname, port: (server.addr as Deno.NetAddr).port };
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
    return new MosaicError("unavailable", `cannot listen on ${text}: the address is taken`, {
      hint: "Stop what listens there, or give --http HOST:PORT with another port (port 0 picks a free one).",
      cause: error,
    });
  }
  return new MosaicError("unavailable", `cannot listen on ${text}: ${messageOf(error)}`, { cause: error });
}
