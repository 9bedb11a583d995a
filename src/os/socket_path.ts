/** Where a state directory's Unix socket is: in it, unless that name is longer than the system's sockets may have. */
import { createHash } from "node:crypto";

/** The most bytes of a socket's name. */
const MOST_BYTES = 107;

export interface SocketPlace {
  path: string;
  /** Of its own, where it is not in the state directory: to be made for the owner alone. */
  directory: string | undefined;
}

/** @param trainer the part of the state directory that has its small files */
export function socketPlace(trainer: string, env: (name: string) => string | undefined): SocketPlace {
  const near = `${trainer}/daemon.sock`;
  if (new TextEncoder().encode(near).length <= MOST_BYTES) return { path: near, directory: undefined };
  const name = createHash("sha256").update(trainer).digest("hex").slice(0, 16);
  const directory = `${env("XDG_RUNTIME_DIR") || "/tmp"}/mosaic-${name}`;
  return { path: `${directory}/daemon.sock`, directory };
}
