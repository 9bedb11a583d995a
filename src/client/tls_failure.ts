/** Why TLS with a daemon failed, from what grpc-js says: without it, it looks as if no daemon were there. */
import { MosaicError } from "../base/errors.ts";

const CAUSE = /Last error: (?:Error(?: \[\w+\])?: )?(.*?)(?: \(\d{4}-[\dT:.-]+Z\))?\.? Resolution note/s;
const OF_TLS = /certificate|altname|fatal alert|\bTLS\b|\bSSL\b/i;
/** A daemon that does not let a client in may be gone before its reason is read. */
const BROKEN_OFF = /EPIPE|ECONNRESET|socket hang up/;

const HINTS: readonly [RegExp, string][] = [
  [
    /CertificateRequired/,
    "It asks for a client's certificate: name one, with its key, in $MOSAIC_TLS_CERT and $MOSAIC_TLS_KEY.",
  ],
  [/altname/i, "Name it as its certificate does, or put that name into $MOSAIC_TLS_SERVER_NAME."],
];
const OTHERWISE =
  "Name the authority of its certificate with $MOSAIC_TLS_CA (a proxy: --tls-ca), and a client's own certificate by one that it knows.";

/** @param details of a call over TLS that got no connection. @returns undefined where TLS was not the reason */
export function tlsFailure(target: string, details: string, error: unknown): MosaicError | undefined {
  const cause = CAUSE.exec(details)?.[1];
  if (cause === undefined) return undefined;
  if (BROKEN_OFF.test(cause)) {
    return new MosaicError("unavailable", `the daemon at ${target} broke off as TLS began: ${cause}`, {
      hint: "It may ask for a client's certificate ($MOSAIC_TLS_CERT, $MOSAIC_TLS_KEY), or be stopping.",
      cause: error,
    });
  }
  if (!OF_TLS.test(cause)) return undefined;
  const hint = HINTS.find(([pattern]) => pattern.test(cause))?.[1] ?? OTHERWISE;
  return new MosaicError("unavailable", `TLS with the daemon at ${target} failed: ${cause}`, { hint, cause: error });
}
