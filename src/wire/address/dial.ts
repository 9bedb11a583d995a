/** A connection to a daemon's API: a Unix socket, TCP, or TLS over it. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { ownerOfListener, ownerOfPeer, readSocketTables } from "../../os/host/socket_owners.ts";
import { missingNet } from "../../permissions/missing.ts";
import { pem } from "./pem.ts";
import { parseTarget } from "./target.ts";

/** Paths of PEM files. */
export interface ClientTls {
  /** The authority that has signed the daemon's certificate, in addition to the system's. */
  ca?: string;
  /** The client's own certificate and its key. */
  cert?: string;
  key?: string;
}

export interface DialOptions {
  /** See `parseTarget`. */
  target: string;
  /** Sent as `authorization: Bearer …`. */
  token?: string | undefined;
  /** Undefined: plain, unless the target says https. */
  tls?: ClientTls | undefined;
  /** The name in the daemon's certificate, if it differs from the target's. */
  serverName?: string | undefined;
}

/** The protocol on the connection, by its TLS name (ALPN). */
export type Spoken = "http/1.1" | "h2";

export function usesTls({ target, tls }: Pick<DialOptions, "target" | "tls">): boolean {
  const { address, tls: byScheme } = parseTarget(target);
  return address.type === "tcp" && (byScheme ?? tls !== undefined);
}

/**
 * @throws MosaicError `invalid_argument`, `failed_precondition` for an unusable target or files,
 * `permission_denied` under a
 *   permission set without the target, `unavailable` if TLS failed; other errors if nothing answers.
 */
export async function dial(
  options: DialOptions,
  spoken: Spoken,
  signal: AbortSignal,
): Promise<Deno.Conn> {
  const { address } = parseTarget(options.target);
  const dialling = address.type === "unix"
    ? Deno.connect({ transport: "unix", path: address.path })
    : overTcp(options, address, spoken, signal);
  try {
    return await unlessAborted(dialling, signal);
  } catch (error) {
    // Checked only after an error, so that a successful call does not pay for it.
    throw missingNet(netNameOf(options.target)) ?? error;
  }
}

/** The target's name in the runtime's net permission. */
function netNameOf(target: string): string {
  const { address } = parseTarget(target);
  return address.type === "unix" ? `unix:${address.path}` : `${address.host}:${address.port}`;
}

async function overTcp(
  options: DialOptions,
  { host, port }: { host: string; port: number },
  spoken: Spoken,
  signal: AbortSignal,
): Promise<Deno.Conn> {
  const hostname = host.replace(/^\[|\]$/g, "");
  if (!usesTls(options)) {
    const connection = await tcp(hostname, port, signal);
    try {
      if (options.token !== undefined) await refuseSquatter(connection);
      return connection;
    } catch (error) {
      close(connection);
      throw error;
    }
  }
  const { tls, serverName } = options;
  const given = {
    caCerts: tls?.ca === undefined ? [] : [pem(tls.ca, "--tls-ca")],
    alpnProtocols: [spoken],
  };
  const own = certificateOf(options, hostname);
  // With TCP_NODELAY, which startTls keeps.
  const connection = own === undefined ? await tcp(hostname, port, signal) : undefined;
  let secured: Deno.TlsConn | undefined;
  try {
    secured = connection === undefined
      ? await Deno.connectTls({ hostname, port, ...given, ...own! })
      : await Deno.startTls(connection, { hostname: serverName ?? hostname, ...given });
    await unlessAborted(secured.handshake(), signal);
    return secured;
  } catch (error) {
    close(secured ?? connection);
    throw tlsFailure(options.target, error) ?? error;
  }
}

/**
 * Any local user may listen on a port that a daemon had: a token is sent only to processes of one's
 * own user and of root.
 * @throws MosaicError `failed_precondition`
 */
async function refuseSquatter({ localAddr, remoteAddr }: Deno.TcpConn): Promise<void> {
  const tables = await readSocketTables();
  // Without such tables this cannot be checked.
  if (tables === "") return;
  const [own, listener] = [
    ownerOfPeer(tables, { address: localAddr.hostname, port: localAddr.port }, remoteAddr.port),
    ownerOfListener(tables, { address: remoteAddr.hostname, port: remoteAddr.port }),
  ];
  if (listener !== undefined && (listener === own || listener === 0)) return;
  const address = `${remoteAddr.hostname}:${remoteAddr.port}`;
  const who = listener === undefined
    ? "it is not known who listens there"
    : `user ${listener} listens there`;
  throw new MosaicError("failed_precondition", `the token is not sent to ${address}: ${who}`, {
    hint:
      "A token is sent on this machine to processes of your own user and of root only. Use the daemon's Unix socket " +
      "(unset MOSAIC_TARGET, or --target unix:PATH), or TLS (https://HOST:PORT with $MOSAIC_TLS_CA).",
  });
}

async function tcp(hostname: string, port: number, signal: AbortSignal): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname, port, signal });
  connection.setNoDelay(true);
  return connection;
}

/** A failed TLS handshake may have closed the TCP connection, or not. */
function close(connection: Deno.Conn | undefined): void {
  try {
    connection?.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

/** @throws MosaicError `failed_precondition` */
function certificateOf(
  { tls, serverName, target }: DialOptions,
  hostname: string,
): { cert: string; key: string } | undefined {
  if (tls?.cert === undefined && tls?.key === undefined) return undefined;
  if (tls.cert === undefined || tls.key === undefined) {
    throw new MosaicError(
      "failed_precondition",
      "a client's certificate needs both $MOSAIC_TLS_CERT and $MOSAIC_TLS_KEY",
    );
  }
  if (serverName !== undefined && serverName !== hostname) {
    throw new MosaicError(
      "failed_precondition",
      `the runtime cannot both show a client's certificate and check for the name ${serverName} at ${target}`,
      {
        hint:
          "Name the daemon in the target as its certificate does, and leave out $MOSAIC_TLS_SERVER_NAME.",
      },
    );
  }
  return { cert: pem(tls.cert, "$MOSAIC_TLS_CERT"), key: pem(tls.key, "$MOSAIC_TLS_KEY") };
}

const OF_TLS = /certificate|fatal alert|handshake|corrupt message|\bTLS\b/i;
const HINTS: readonly [RegExp, string][] = [
  [
    /CertificateRequired/,
    "It asks for a client's certificate: name one, with its key, in $MOSAIC_TLS_CERT and $MOSAIC_TLS_KEY.",
  ],
  [
    /not valid for name|NotValidForName/,
    "Name it as its certificate does, or put that name into $MOSAIC_TLS_SERVER_NAME.",
  ],
  [
    /corrupt message|handshake eof/,
    "What listens there may not speak TLS: try http:// and the daemon's --http address.",
  ],
];
const OTHERWISE =
  "Name the authority of its certificate with $MOSAIC_TLS_CA (a proxy: --tls-ca), and a client's own certificate by one that it knows.";

/** @returns undefined if TLS was not the reason */
export function tlsFailure(target: string, error: unknown): MosaicError | undefined {
  if (error instanceof MosaicError) return undefined;
  const cause = messageOf(error);
  if (!OF_TLS.test(cause)) return undefined;
  const hint = HINTS.find(([pattern]) => pattern.test(cause))?.[1] ?? OTHERWISE;
  return new MosaicError("unavailable", `TLS with the daemon at ${target} failed: ${cause}`, {
    hint,
    cause: error,
  });
}

/** @throws the signal's reason as soon as it aborts; a connection that is made later is closed */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop!: () => void;
  const stopped = new Promise<never>((_, reject) => stop = () => reject(signal.reason));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([promise, stopped]);
  } catch (error) {
    promise.then((late) => (late as Partial<Deno.Conn> | undefined)?.close?.(), () => {});
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
