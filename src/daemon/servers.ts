/** The daemon's two servers, started together or not at all. */
import { gatekeeper } from "../rpc/auth/gatekeeper.ts";
import { checkListener, pagePair, type TlsFiles } from "../wire/tls.ts";
import { pageLogin } from "../ui/page_login.ts";
import { TokenFile } from "../wire/tokens.ts";
import type { Bounds } from "../base/load_limits.ts";
import type { Core } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { descriptorLimit, type FileDescriptors } from "../os/descriptors.ts";
import { connectionsWithin } from "../rpc/connections.ts";
import type { Readiness } from "../observability/readiness.ts";
import { startRpc } from "../rpc/server.ts";
import { parseAddress, startPage } from "../ui/server.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

export interface Servers {
  /** Addresses as clients dial them; `http` is "" when the page is off. */
  listen: string;
  /** The same for this machine, without TLS: mosaic's own proxies and verbs use it. */
  local: string;
  http: string;
  stop(): Promise<void>;
}

export interface ServerOptions {
  listen: string;
  http: string;
  auth: "none" | "token";
  tls: TlsFiles | undefined;
  /** Where the tokens are, or will be. */
  tokensFile: string;
  bounds: Bounds;
  log: Logger;
  readiness: () => Readiness;
  descriptors?: FileDescriptors;
}

/** @throws StartFailure (usage, addressTaken) */
export async function startServers(
  core: Core,
  options: ServerOptions,
): Promise<Servers> {
  try {
    checkPage(options);
    const tokens = options.auth === "token" ? new TokenFile(options.tokensFile) : undefined;
    const maxConnections = connectionsWithin(options.bounds.maxConnections, descriptorLimit());
    const rpc = await startRpc(core, {
      listen: options.listen,
      bounds: { ...options.bounds, maxConnections },
      log: options.log,
      tls: options.tls,
      ready: () => options.readiness().ready,
      descriptors: options.descriptors,
      gatekeeper: tokens && gatekeeper(core.registry, tokens),
    });
    try {
      const page = options.http === "off" ? undefined : await startPage(core, {
        log: options.log,
        maxStreams: options.bounds.maxPageStreams,
        logLines: options.bounds.logLines,
        http: options.http,
        readiness: options.readiness,
        descriptors: options.descriptors,
        tls: options.tls && pagePair(options.tls),
        login: tokens && pageLogin(tokens, { secure: options.tls !== undefined }),
      });
      return {
        listen: rpc.address,
        local: rpc.localAddress,
        http: page?.address ?? "",
        async stop() {
          await Promise.all([rpc.stop(), page?.stop()]);
        },
      };
    } catch (error) {
      await rpc.stop(0);
      throw error;
    }
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    const isUsage = error.code === "invalid_argument" || error.code === "failed_precondition";
    const code = isUsage ? DAEMON_EXIT.usage : DAEMON_EXIT.addressTaken;
    throw new StartFailure(code, error.message, error.hint);
  }
}

/** Whoever reaches the page may run programs as the daemon's user. A browser has no client certificate: it needs a token. */
function checkPage({ http, auth, tls }: ServerOptions): void {
  if (http === "off") return;
  const { hostname, port } = parseAddress(http);
  const listen = `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
  checkListener({ listen, auth, tls: tls && { cert: tls.cert, key: tls.key } }, "--http");
}
