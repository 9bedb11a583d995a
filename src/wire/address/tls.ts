/**
 * Requirements of a listener. Loopback and Unix sockets may be open to anybody on this machine (a
 * socket's mode is 0600); everything else needs TLS and a credential, or the daemon does not start.
 */
import { nodeCrypto } from "../../base/node_modules.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { isLoopback, parseListen } from "./address.ts";
import { pem } from "./pem.ts";

/**
 * What calls need: `token`: always a token; `user`: nothing if the peer is known to be the daemon's
 * user, otherwise a token; `none`: nothing.
 */
export const AUTHS = ["user", "token", "none"] as const;
export type Auth = typeof AUTHS[number];

export interface TlsFiles {
  /** The server's (or client's) certificate chain and private key, PEM. */
  cert: string;
  key: string;
  /** The authority that client (or server) certificates must be signed by, PEM. */
  ca?: string;
}

export interface ListenerOptions {
  /** `HOST:PORT` or `unix:PATH`. */
  listen: string;
  /** What calls need. */
  auth: Auth;
  /** Files or texts. */
  tls?: { cert: string; key: string; ca?: string };
}

/** @throws MosaicError `failed_precondition` for an unprotected listener that others can reach. */
export function checkListener(options: ListenerOptions, what = "--listen"): void {
  if (isLoopback(parseListen(options.listen))) return;
  const missing = [
    ...(options.tls === undefined ? ["TLS (--tls-cert and --tls-key)"] : []),
    ...(options.auth === "none" && options.tls?.ca === undefined
      ? ["a credential (--auth token, or --tls-ca for client certificates)"]
      : []),
  ];
  if (missing.length === 0) return;
  throw new MosaicError(
    "failed_precondition",
    `${what} ${options.listen} can be reached from other machines and lacks ${
      missing.join(" and ")
    }`,
    { hint: "Protect it as said, or listen on 127.0.0.1 or a Unix socket." },
  );
}

/** A server's certificate and key, and the authority for its clients' certificates, as texts. */
export interface TlsTexts {
  cert: string;
  key: string;
  ca?: string;
}

/** @throws MosaicError `failed_precondition` for unusable files. */
export function readTls(tls: TlsFiles): TlsTexts {
  const [cert, key] = [pem(tls.cert, "--tls-cert"), pem(tls.key, "--tls-key")];
  if (!isPair(cert, key)) {
    throw new MosaicError(
      "failed_precondition",
      `--tls-key ${tls.key} is not the key of --tls-cert ${tls.cert}`,
    );
  }
  return {
    cert,
    key,
    ...(tls.ca === undefined ? {} : { ca: pem(tls.ca, "--tls-ca") }),
  };
}

/** gRPC's library would notice only when a client connects. */
function isPair(cert: string, key: string): boolean {
  try {
    return new (nodeCrypto().X509Certificate)(cert).checkPrivateKey(
      nodeCrypto().createPrivateKey(key),
    );
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `--tls-cert and --tls-key cannot be used: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
}
