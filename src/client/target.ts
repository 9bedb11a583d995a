/** How a client finds its daemon, and with what it may enter. */
import { isIP } from "node:net";
import { readTokens } from "../auth/tokens.ts";
import type { TlsFiles } from "../auth/listeners.ts";
import { MosaicError } from "../errors.ts";
import { Layout, resolveStateDir } from "../layout.ts";
import { readTextIfThere } from "../process/files.ts";
import { isLoopback, parseListen } from "../rpc/listen.ts";
import { dialable } from "./dialable.ts";

export interface TargetOptions {
  /** `HOST:PORT` or `unix:PATH`. */
  target?: string;
  stateDir?: string;
  /** Else `$MOSAIC_TOKEN`, else the state directory's own where the daemon was found there. */
  token?: string;
  /** Else `$MOSAIC_TLS_CA`, `$MOSAIC_TLS_CERT` and `$MOSAIC_TLS_KEY`. */
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

/** What a running daemon writes into daemon.json. */
interface DaemonJson {
  listen?: unknown;
  /** Where it listens for this machine, where `listen` has TLS. */
  local?: unknown;
}

/**
 * `target`, else `$MOSAIC_TARGET`, else what the state directory's daemon says it listens on.
 *
 * @throws MosaicError `unavailable` when there is no such daemon, `invalid_argument` without a state directory or
 * without a name to compare a certificate with,
 * `failed_precondition` when a token would travel to another machine unencrypted.
 */
export function resolveEntrance(options: TargetOptions): Entrance {
  const env = options.env ?? ((name: string) => Deno.env.get(name));
  const token = options.token || env("MOSAIC_TOKEN") || undefined;
  const tls = options.tls ?? tlsOf(env);
  const serverName = options.serverName || env("MOSAIC_TLS_SERVER_NAME") || undefined;
  const given = options.target || (options.stateDir ? undefined : env("MOSAIC_TARGET"));
  if (given) return checked({ target: given, token, tls, serverName });

  const stateDir = resolveStateDir(options.stateDir, env);
  const { target, isLocal } = targetIn(stateDir, options.stateDir);
  return checked({
    target,
    // The token of a state directory is for the daemon of that directory, and for no other.
    token: token ?? ownToken(new Layout(stateDir).tokensFile),
    tls: isLocal ? undefined : tls,
    serverName,
  });
}

function tlsOf(env: (name: string) => string | undefined): Partial<TlsFiles> | undefined {
  const [ca, cert, key] = [env("MOSAIC_TLS_CA"), env("MOSAIC_TLS_CERT"), env("MOSAIC_TLS_KEY")];
  if (!ca && !cert) return undefined;
  return { ca: ca || undefined, cert: cert || undefined, key: key || undefined };
}

function targetIn(stateDir: string, option: string | undefined): { target: string; isLocal: boolean } {
  const path = new Layout(stateDir).daemonJson;
  const text = readTextIfThere(path);
  if (text === undefined) throw notRunning(`no daemon runs in ${stateDir}`, option);
  try {
    const { listen, local } = JSON.parse(text) as DaemonJson;
    if (typeof local === "string" && local !== "") return { target: local, isLocal: true };
    if (typeof listen === "string" && listen !== "") return { target: dialable(listen), isLocal: true };
  } catch {
    // Torn or foreign; said below.
  }
  throw new MosaicError("unavailable", `${path} does not say where the daemon listens`, {
    hint: "Start the daemon again, or name it with --target.",
  });
}

function ownToken(path: string): string | undefined {
  try {
    return readTokens(path)?.admin;
  } catch (error) {
    // Another user's, or not granted under this permission set: then whoever asks has no token.
    if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) return undefined;
    throw error;
  }
}

function checked(entrance: Entrance): Entrance {
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

/** The runtime compares a certificate with a name only. @throws MosaicError `invalid_argument` */
function requireName({ target, tls, serverName }: Entrance): void {
  const host = target.replace(/:\d*$/, "").replace(/^\[|\]$/g, "");
  if (tls === undefined || serverName !== undefined || isIP(host) === 0) return;
  throw new MosaicError("invalid_argument", `${target} is an address, and a certificate is compared with a name`, {
    hint: "Give the host's name, or put the name in the daemon's certificate into $MOSAIC_TLS_SERVER_NAME.",
  });
}

export function notRunning(what: string, stateDir?: string, cause?: unknown): MosaicError {
  const where = stateDir === undefined ? "" : ` --state-dir ${stateDir}`;
  return new MosaicError("unavailable", what, {
    hint: `Start one with "mosaic daemon${where}", or name another with --target or $MOSAIC_TARGET.`,
    cause,
  });
}
