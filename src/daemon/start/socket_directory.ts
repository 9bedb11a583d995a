/** Path of the daemon's Unix socket, with its directory created and checked. */
import type { Layout } from "../../base/layout.ts";
import { messageOf } from "../../base/errors.ts";
import { socketPlace } from "../../os/files/socket_path.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

/**
 * @throws StartFailure (stateUnusable) when its directory cannot be created, or other users can
 * access it
 */
export function socketPath(layout: Layout, env: (name: string) => string | undefined): string {
  const { path, directory } = socketPlace(layout.trainer, env);
  if (directory === undefined) return path;
  try {
    Deno.mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw unusable(directory, messageOf(error));
  }
  const { isDirectory, uid, mode } = Deno.lstatSync(directory);
  if (!isDirectory || uid !== Deno.statSync(layout.stateDir).uid || (mode! & 0o077) !== 0) {
    throw unusable(directory, "it must be a directory of the daemon's user with mode 700");
  }
  return path;
}

function unusable(directory: string, why: string): StartFailure {
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `cannot use the directory ${directory} for the daemon's socket: ${why}`,
    "The state directory's path is too long for a socket. Remove that directory, set XDG_RUNTIME_DIR, or choose a shorter --state-dir.",
  );
}
