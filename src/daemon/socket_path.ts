/** The daemon's own socket, ready to be listened on. */
import type { Layout } from "../base/layout.ts";
import { messageOf } from "../base/errors.ts";
import { socketPlace } from "../os/socket_path.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

/** @throws StartFailure (stateUnusable) when the directory that it needs cannot be made, or is not the daemon's alone */
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
    throw unusable(directory, "it is not a directory of the daemon's user alone (mode 700)");
  }
  return path;
}

function unusable(directory: string, why: string): StartFailure {
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `the directory ${directory} for the daemon's socket cannot be used: ${why}`,
    "The state directory's own path is too long for a socket. Remove that directory, set XDG_RUNTIME_DIR, or choose a shorter --state-dir.",
  );
}
