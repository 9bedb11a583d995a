/** grpc-js's credentials of a channel. */
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import type { TlsFiles } from "../../src/wire/address/tls.ts";
import { pem } from "../../src/wire/address/pem.ts";

/** `ca` is the authority of the daemon's certificate (default: the system's authorities). */
export function channelCredentials(tls: Partial<TlsFiles> | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const file = (path: string | undefined, option: string) =>
    path === undefined ? null : Buffer.from(pem(path, option));
  return credentials.createSsl(
    file(tls.ca, "--tls-ca"),
    file(tls.key, "--tls-key"),
    file(tls.cert, "--tls-cert"),
  );
}
