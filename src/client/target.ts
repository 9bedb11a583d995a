/** How a client finds its daemon. */
import { MosaicError } from "../errors.ts";
import { Layout, resolveStateDir } from "../layout.ts";
import { readTextIfThere } from "../process/files.ts";

export interface TargetOptions {
  /** `HOST:PORT` or `unix:PATH`. */
  target?: string;
  stateDir?: string;
  env?: (name: string) => string | undefined;
}

/** What a running daemon writes into daemon.json. */
interface DaemonJson {
  listen?: unknown;
}

/**
 * `target`, else `$MOSAIC_TARGET`, else what the state directory's daemon says it listens on.
 * @throws MosaicError `unavailable` when there is no such daemon, `invalid_argument` without a state directory.
 */
export function resolveTarget(options: TargetOptions): string {
  const env = options.env ?? ((name: string) => Deno.env.get(name));
  const given = options.target || (options.stateDir ? undefined : env("MOSAIC_TARGET"));
  if (given) return given;
  const stateDir = resolveStateDir(options.stateDir, env);
  const path = new Layout(stateDir).daemonJson;
  const text = readTextIfThere(path);
  if (text === undefined) throw notRunning(`no daemon runs in ${stateDir}`, options.stateDir);
  const listen = listenOf(text);
  if (listen === undefined) {
    throw new MosaicError("unavailable", `${path} does not say where the daemon listens`, {
      hint: "Start the daemon again, or name it with --target.",
    });
  }
  return dialable(listen);
}

function listenOf(text: string): string | undefined {
  try {
    const { listen } = JSON.parse(text) as DaemonJson;
    return typeof listen === "string" && listen !== "" ? listen : undefined;
  } catch {
    return undefined;
  }
}

/** A daemon that listens on every address is reached on this machine by loopback. */
export function dialable(listen: string): string {
  return listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:");
}

export function notRunning(what: string, stateDir?: string, cause?: unknown): MosaicError {
  const where = stateDir === undefined ? "" : ` --state-dir ${stateDir}`;
  return new MosaicError("unavailable", what, {
    hint: `Start one with "mosaic daemon${where}", or name another with --target or $MOSAIC_TARGET.`,
    cause,
  });
}
