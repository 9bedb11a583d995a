/** Binds gRPC's address. Connections are plain sockets: the library may not be loaded yet. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere } from "../../os/files/files.ts";
import { requireNet } from "../../permissions/missing.ts";
import type { ListenAddress } from "../../wire/address/address.ts";

export interface Bound {
  /** The address for clients. */
  address: string;
  /** Its port; undefined for a Unix socket. */
  port: number | undefined;
  /** Accepts no more connections; existing ones stay. */
  close(): void;
}

/**
 * @throws MosaicError `unavailable` naming an address that is taken, `permission_denied` if the
 * runtime refuses.
 */
export async function bind(
  address: ListenAddress,
  onConnection: (socket: Socket) => void,
): Promise<Bound> {
  const server = createServer(onConnection);
  if (address.type === "tcp") {
    const { host, port } = address;
    await listen(server, `${host}:${port}`, { host: host.replace(/^\[|\]$/g, ""), port });
    const bound = (server.address() as AddressInfo).port;
    return { address: `${host}:${bound}`, port: bound, close: () => void server.close() };
  }
  const { path } = address;
  await removeStaleSocket(path, "--listen");
  // The umask applies while the file is created, so that it never has mode 0777; the exact mode is
  // set afterwards.
  const before = Deno.umask(0o077);
  try {
    await listen(server, `unix:${path}`, { path });
  } finally {
    Deno.umask(before);
  }
  Deno.chmodSync(path, 0o600);
  return { address: `unix:${path}`, port: undefined, close: () => void server.close() };
}

function listen(
  server: Server,
  target: string,
  where: { host: string; port: number } | { path: string },
): Promise<void> {
  // Checked first, because a refusal by the runtime cannot be caught.
  requireNet(target);
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(bindError(target, error)));
    server.listen(where, () => {
      server.on("error", () => {});
      resolve();
    });
  });
}

function bindError(target: string, error: unknown): MosaicError {
  const text = messageOf(error);
  if (/EADDRINUSE|address already in use/i.test(text)) {
    return new MosaicError("unavailable", `cannot listen on ${target}: the address is in use`, {
      hint: "Stop what listens there, or choose another with --listen (port 0 picks a free one).",
      cause: error,
    });
  }
  return new MosaicError("unavailable", `cannot listen on ${target}: ${text}`, { cause: error });
}

/**
 * Removes the socket file of a killed server. A server that answers there is running.
 * @param option name of the option with the path
 * @throws MosaicError `unavailable` for a socket that answers, or a file that is no socket
 */
export async function removeStaleSocket(path: string, option: string): Promise<void> {
  const info = infoIfThere(path);
  if (info === undefined) return;
  if (!info.isSocket) {
    throw new MosaicError(
      "unavailable",
      `cannot listen on unix:${path}: a file that is not a socket exists there`,
      {
        hint: `Choose another path with ${option}.`,
      },
    );
  }
  if (await answers(path)) {
    throw new MosaicError("unavailable", `cannot listen on unix:${path}: the address is in use`, {
      hint: `Stop the daemon that listens there, or choose another path with ${option}.`,
    });
  }
  Deno.removeSync(path);
}

/** The first bytes of an HTTP/2 client: the preface and empty settings. */
const HELLO = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
const ANSWER_MS = 3000;

/**
 * Whether a server answers at the socket. An accepted connection does not show that: child
 * processes inherit the listener, so after a daemon was killed the system accepts connections as
 * long as its runs live.
 */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const timer = setTimeout(() => done(false), ANSWER_MS);
    const done = (answer: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => socket.write(HELLO));
    // Any bytes count as an answer, and so does an orderly end.
    socket.once("data", () => done(true));
    socket.once("end", () => done(true));
    socket.once("error", () => done(false));
  });
}
