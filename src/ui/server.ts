/** The status page's server: the Hono application on a socket. */
import type { PageLogin } from "./page_login.ts";
import type { Core } from "../dispatch/core/core.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { type FileDescriptors, PLENTY } from "../os/descriptors.ts";
import { missingNet } from "../permissions/missing.ts";
import { type AppOptions, createApp } from "./app.ts";
import { sleep } from "../base/sleep.ts";

export interface PageServerOptions extends Omit<AppOptions, "bound" | "authenticate" | "logIn"> {
  /** HOST:PORT, or [V6]:PORT; port 0 picks a free one. */
  http: string;
  /** Certificate and key in PEM: the page then speaks HTTPS. */
  tls?: { cert: string; key: string };
  /** The page behind a token; without it everybody who reaches the page is its owner. */
  login?: PageLogin;
  /** In a shortage the page goes first: it gives up its connections and is served again afterwards. */
  descriptors?: FileDescriptors;
}

export interface PageServer {
  /** HOST:PORT it listens on. */
  address: string;
  /** Ends live streams, lets answers that are on their way finish, and closes. */
  stop(): Promise<void>;
}

const STOP_GRACE_MS = 2000;
const AGAIN_MS = 1000;

/** @throws MosaicError `invalid_argument` when it is not HOST:PORT. */
export function parseAddress(text: string): { hostname: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) {
    throw new MosaicError("invalid_argument", `--http is "${text}"; it must be HOST:PORT, such as 127.0.0.1:8055`);
  }
  return { hostname: match[1] ?? match[2]!, port };
}

/**
 * Serves the page.
 *
 * @throws MosaicError `unavailable` when the port is taken or the address is not this machine's, `invalid_argument` when
 * the address cannot be read.
 */
export function startPage(core: Core, options: PageServerOptions): Promise<PageServer> {
  const { hostname, port } = parseAddress(options.http);
  const { login, descriptors = PLENTY } = options;
  const app = createApp(core, {
    ...options,
    bound: hostname,
    ...(login === undefined ? {} : { authenticate: login.authenticate, logIn: login.handle }),
  });
  let abort = new AbortController();
  const listen = (port: number): Deno.HttpServer<Deno.NetAddr> =>
    Deno.serve(
      {
        hostname,
        port,
        signal: abort.signal,
        onListen: () => {},
        onError: (error) => {
          options.log.error({ err: messageOf(error) }, "an answer of the page broke off");
          return new Response(null, { status: 500 });
        },
        ...(options.tls ?? {}),
      },
      (request, { remoteAddr }) => app.fetch(request, remoteAddr.hostname),
    );
  let server: Deno.HttpServer<Deno.NetAddr>;
  try {
    server = listen(port);
  } catch (error) {
    app.stop();
    return Promise.reject(cannotListen(options.http, error));
  }
  const bound = server.addr.port;
  let stopping = false;
  descriptors.onShortage(() => abort.abort());
  /** Serving ends by itself, too, when no file descriptor is left for a connection; what it held then is not let go. */
  const serveOn = async () => {
    while (!stopping) {
      const why = await server.finished.then(() => "no file descriptor is left", messageOf);
      if (stopping) return;
      options.log.error({ error: why }, "the page serves no longer; it begins again as soon as it can");
      abort.abort();
      for (let back = false; !back && !stopping;) {
        await sleep(AGAIN_MS);
        if (stopping || descriptors.look()) continue;
        try {
          abort = new AbortController();
          server = listen(bound);
          back = true;
        } catch {
          // The port is taken meanwhile.
        }
      }
      if (!stopping) options.log.warn("the page serves again");
    }
  };
  serveOn();
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  return Promise.resolve({
    address: `${host}:${bound}`,
    async stop() {
      stopping = true;
      app.stop();
      const timer = setTimeout(() => abort.abort(), STOP_GRACE_MS);
      await Promise.race([server.shutdown(), server.finished.catch(() => {})]);
      clearTimeout(timer);
    },
  });
}

function cannotListen(address: string, error: unknown): MosaicError {
  const refused = missingNet(address);
  if (refused !== undefined) return refused;
  if (error instanceof Deno.errors.AddrInUse) {
    return new MosaicError("unavailable", `the status page's port ${address} is taken`, {
      hint: "Stop what listens there, or give --http HOST:PORT with another port (port 0 picks a free one).",
      cause: error,
    });
  }
  return new MosaicError("unavailable", `the status page cannot listen on ${address}: ${messageOf(error)}`, {
    cause: error,
  });
}
