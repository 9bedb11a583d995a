/**
 * What a listener must have. Loopback and Unix sockets may be open to whoever is on this machine (a socket's mode is
 * 0600); everything else needs TLS and a credential, or the daemon does not start.
 */
import { ChannelCredentials, credentials, ServerCredentials } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { messageOf, MosaicError } from "../base/errors.ts";
import { isLoopback, parseListen } from "./address.ts";

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
  /** Calls need a token. */
  auth: "none" | "token";
  tls?: TlsFiles;
}

/** @throws MosaicError `failed_precondition` for a listener that others can reach and that is not protected. */
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
    `${what} ${options.listen} can be reached from other machines and lacks ${missing.join(" and ")}`,
    { hint: "Protect it as said, or listen on 127.0.0.1 or a Unix socket." },
  );
}

function pem(path: string, option: string): Buffer {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    throw new MosaicError("failed_precondition", `${option} ${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (!/-----BEGIN [A-Z0-9 ]+-----/.test(text)) {
    throw new MosaicError("failed_precondition", `${option} ${path} is no PEM file`);
  }
  return Buffer.from(text);
}

/** @throws MosaicError `failed_precondition` for files that cannot be used. */
export function serverCredentials(tls: TlsFiles | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const pair = { cert_chain: pem(tls.cert, "--tls-cert"), private_key: pem(tls.key, "--tls-key") };
  // The runtime takes no null for "no authority".
  const ca = tls.ca === undefined ? Buffer.alloc(0) : pem(tls.ca, "--tls-ca");
  try {
    return ServerCredentials.createSsl(ca, [pair], tls.ca !== undefined);
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `--tls-cert ${tls.cert} and --tls-key cannot be used: ${messageOf(error)}`,
    );
  }
}

/** The same certificate for the page. @throws MosaicError `failed_precondition` for files that cannot be used. */
export function pagePair(tls: TlsFiles): { cert: string; key: string } {
  return { cert: pem(tls.cert, "--tls-cert").toString(), key: pem(tls.key, "--tls-key").toString() };
}

/** For clients: `ca` is who must have signed the daemon's certificate (else the system's authorities). */
export function channelCredentials(tls: Partial<TlsFiles> | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const file = (path: string | undefined, option: string) => path === undefined ? null : pem(path, option);
  return credentials.createSsl(
    file(tls.ca, "--tls-ca"),
    file(tls.key, "--tls-key"),
    file(tls.cert, "--tls-cert"),
  );
}
