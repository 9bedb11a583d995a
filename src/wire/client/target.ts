/** How a client finds its daemon, and its credentials. */
import { MosaicError } from "../../base/errors.ts";
import { Layout, resolveStateDir } from "../../base/layout.ts";
import { readTextIfThere } from "../../os/files/files.ts";
import type { DialOptions } from "../address/dial.ts";
import {
  credentialsOf,
  environmentVariable,
  safeDialOptions,
  type TargetOptions,
} from "./dial_options.ts";

/**
 * `target`, else `$MOSAIC_TARGET`, else the Unix socket in the state directory's daemon.json. That
 * one needs no token: only the daemon's own user can open it.
 * @throws MosaicError `unavailable` if there is no such daemon, `invalid_argument` without a state
 * directory or for an
 *   invalid target, `failed_precondition` if a token would be sent to another machine unencrypted.
 */
export function resolveDialOptions(options: TargetOptions): DialOptions {
  const env = options.env ?? environmentVariable;
  const given = options.target || (options.stateDir ? undefined : env("MOSAIC_TARGET"));
  const credentials = credentialsOf(options, env);
  if (given) return safeDialOptions({ target: given, ...credentials });
  const target = socketOf(resolveStateDir(options.stateDir, env), options.stateDir);
  return { ...credentials, target, tls: undefined, serverName: undefined };
}

function socketOf(stateDir: string, option: string | undefined): string {
  const path = new Layout(stateDir).daemonJson;
  const text = readTextIfThere(path);
  if (text === undefined) throw notRunning(`no daemon runs in ${stateDir}`, option);
  try {
    const { socket } = JSON.parse(text) as { socket?: unknown };
    if (typeof socket === "string" && socket !== "") return `unix:${socket}`;
  } catch {
    // Torn or foreign; the error below says so.
  }
  throw new MosaicError("unavailable", `${path} does not name the daemon's socket`, {
    hint:
      "The daemon may be of an older version: start it again, or name its --http address with --target.",
  });
}

export function notRunning(what: string, stateDir?: string, cause?: unknown): MosaicError {
  const where = stateDir === undefined ? "" : ` --state-dir ${stateDir}`;
  return new MosaicError("unavailable", what, {
    hint: `Start one with "mosaic up${where}", or name another with --target or $MOSAIC_TARGET.`,
    cause,
  });
}
