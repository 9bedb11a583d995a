/** Where gRPC listens, and what can be in the way. Connections come as plain sockets: the library has not been loaded yet. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere } from "../../os/files.ts";
import { requireNet } from "../../permissions/missing.ts";
import type { ListenAddress } from "../../wire/address.ts";

export interface Bound {
  /** As clients dial it. */
  address: string;
  /** Its port; undefined for a Unix socket. */
  port: number | undefined;
  /** Takes no more connections; those that there are live on. */
  close(): void;
}

/** @throws MosaicError `unavailable` naming an address that is taken, `permission_denied` where the runtime refuses. */
export async function bind(address: ListenAddress, onConnection: (socket: Socket) => void): Promise<Bound> {
  const server = createServer(onConnection);
  if (address.type === "tcp") {
    const { host, port } = address;
    await listen(server, `${host}:${port}`, { host: host.replace(/^\[|\]$/g, ""), port });
    const bound = (server.address() as AddressInfo).port;
    return { address: `${host}:${bound}`, port: bound, close: () => void server.close() };
  }
  const { path } = address;
  await removeStaleSocket(path, "--listen");
  // Not 0777 for any moment: the mask holds while the file is made, the mode is exact afterwards.
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
  // The runtime's refusal would be thrown past everybody.
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
 * A socket file whose server was killed stays behind; one that still answers belongs to somebody.
 *
 * @param option names the path @throws MosaicError `unavailable` for a socket that answers, or a file that is none
 */
export async function removeStaleSocket(path: string, option: string): Promise<void> {
  const info = infoIfThere(path);
  if (info === undefined) return;
  if (!info.isSocket) {
    throw new MosaicError("unavailable", `cannot listen on unix:${path}: a file that is not a socket exists there`, {
      hint: `Choose another path with ${option}.`,
    });
  }
  if (await answers(path)) {
    throw new MosaicError("unavailable", `cannot listen on unix:${path}: the address is in use`, {
      hint: `Stop the daemon that listens there, or choose another path with ${option}.`,
    });
  }
  Deno.removeSync(path);
}

/** What an HTTP/2 client begins with: the preface and empty settings. */
const HELLO = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
const ANSWER_MS = 3000;

/**
 * Whether a server is behind the socket. That it takes connections does not tell: the runtime's children inherit the
 * listener, so that the system goes on taking them for a daemon that was killed while its runs live; nobody answers then.
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
    // Any word, and a connection turned away, is an answer.
    socket.once("data", () => done(true));
    socket.once("end", () => done(true));
    socket.once("error", () => done(false));
  });
}
