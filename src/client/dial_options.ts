/** With what a client enters a daemon, and that no token travels where others could read it. */
import type { TlsFiles } from "../wire/tls.ts";
import { MosaicError } from "../base/errors.ts";
import { isLoopback, parseListen } from "../wire/address.ts";

export interface TargetOptions {
  /** `HOST:PORT` or `unix:PATH`. */
  target?: string;
  stateDir?: string;
  /** Else `$MOSAIC_TOKEN`, else the state directory's own where the daemon was found there. */
  token?: string;
  /** What it lacks, else all: `$MOSAIC_TLS_CA`, `$MOSAIC_TLS_CERT` and `$MOSAIC_TLS_KEY`. */
  tls?: Partial<TlsFiles>;
  /** The name in the daemon's certificate, where the target is an address; else `$MOSAIC_TLS_SERVER_NAME`. */
  serverName?: string;
  env?: (name: string) => string | undefined;
}

export interface Entrance {
  target: string;
  token: string | undefined;
  /** Connections are plain without it. */
  tls: Partial<TlsFiles> | undefined;
  serverName: string | undefined;
}

export function environmentVariable(name: string): string | undefined {
  return Deno.env.get(name);
}

/** From the options, else from the environment. */
export function credentialsOf(
  options: TargetOptions,
  env: (name: string) => string | undefined,
): Omit<Entrance, "target"> {
  return {
    token: options.token || env("MOSAIC_TOKEN") || undefined,
    tls: tlsOf(options.tls, env),
    serverName: options.serverName || env("MOSAIC_TLS_SERVER_NAME") || undefined,
  };
}

/** Each file by itself: who names the authority in its arguments has its own certificate in the environment all the same. */
function tlsOf(
  given: Partial<TlsFiles> | undefined,
  env: (name: string) => string | undefined,
): Partial<TlsFiles> | undefined {
  const ca = given?.ca || env("MOSAIC_TLS_CA") || undefined;
  const cert = given?.cert || env("MOSAIC_TLS_CERT") || undefined;
  const key = given?.key || env("MOSAIC_TLS_KEY") || undefined;
  return given === undefined && ca === undefined && cert === undefined ? undefined : { ca, cert, key };
}

/**
 * @throws MosaicError `failed_precondition` when a token would travel to another machine unencrypted, `invalid_argument`
 * for an address whose certificate cannot be checked.
 */
export function safeEntrance(entrance: Entrance): Entrance {
  requireName(entrance);
  if (entrance.token === undefined || entrance.tls !== undefined) return entrance;
  let loopback: boolean;
  try {
    loopback = isLoopback(parseListen(entrance.target));
  } catch {
    // Some other form that the library knows; nothing says that it stays on this machine.
    loopback = false;
  }
  if (loopback) return entrance;
  throw new MosaicError("failed_precondition", `the token would travel to ${entrance.target} unencrypted`, {
    hint: "Name the authority of the daemon's certificate with --tls-ca or $MOSAIC_TLS_CA.",
  });
}

/** The runtime compares a certificate with a name only. */
function requireName({ target, tls, serverName }: Entrance): void {
  const host = target.replace(/:\d*$/, "").replace(/^\[|\]$/g, "");
  const isAddress = host.includes(":") || /^\d{1,3}(\.\d{1,3}){3}$/.test(host);
  if (tls === undefined || serverName !== undefined || !isAddress) return;
  throw new MosaicError("invalid_argument", `${target} is an address, and a certificate is compared with a name`, {
    hint: "Give the host's name, or put the name in the daemon's certificate into $MOSAIC_TLS_SERVER_NAME.",
  });
}
