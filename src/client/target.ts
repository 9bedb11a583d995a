/** How a client finds its daemon, and with what it may enter. */
import { readTokens } from "../wire/tokens.ts";
import { MosaicError } from "../base/errors.ts";
import { Layout, resolveStateDir } from "../base/layout.ts";
import { readTextIfThere } from "../os/files.ts";
import { dialable } from "../wire/dialable.ts";
import { credentialsOf, type Entrance, environmentVariable, safeEntrance, type TargetOptions } from "./dial_options.ts";

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
  const env = options.env ?? environmentVariable;
  const { token, tls, serverName } = credentialsOf(options, env);
  const given = options.target || (options.stateDir ? undefined : env("MOSAIC_TARGET"));
  if (given) return safeEntrance({ target: given, token, tls, serverName });

  const stateDir = resolveStateDir(options.stateDir, env);
  const { target, isLocal } = targetIn(stateDir, options.stateDir);
  return safeEntrance({
    target,
    // The token of a state directory is for the daemon of that directory, and for no other.
    token: token ?? ownToken(new Layout(stateDir).tokensFile),
    tls: isLocal ? undefined : tls,
    serverName,
  });
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

export function notRunning(what: string, stateDir?: string, cause?: unknown): MosaicError {
  const where = stateDir === undefined ? "" : ` --state-dir ${stateDir}`;
  return new MosaicError("unavailable", what, {
    hint: `Start one with "mosaic daemon${where}", or name another with --target or $MOSAIC_TARGET.`,
    cause,
  });
}
