/**
 * Path of a state directory's Unix socket: in the directory, unless the path is too long for a
 * socket.
 */
import { sha256 } from "../../base/node_modules.ts";

/** Maximum bytes of a socket's path. */
const MOST_BYTES = 107;

export interface SocketPlace {
  path: string;
  /** Directory to create for the owner alone; undefined if the socket is in the state directory. */
  directory: string | undefined;
}

/** @param trainer the `trainer` directory of the state directory */
export function socketPlace(
  trainer: string,
  env: (name: string) => string | undefined,
): SocketPlace {
  const near = `${trainer}/daemon.sock`;
  if (new TextEncoder().encode(near).length <= MOST_BYTES) {
    return { path: near, directory: undefined };
  }
  const name = sha256().update(trainer).digest("hex").slice(0, 16);
  const directory = `${env("XDG_RUNTIME_DIR") || "/tmp"}/mosaic-${name}`;
  return { path: `${directory}/daemon.sock`, directory };
}

/** Socket of this daemon's TLS, beside the other (src/wire/http/tls_upgrade.ts). */
export function tlsSocket(socket: string): string {
  return `${socket.slice(0, socket.lastIndexOf("/") + 1)}tls.sock`;
}
