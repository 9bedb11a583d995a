/**
 * The address and credentials of a client's connection; no token is sent where others could read
 * it.
 */
import { MosaicError } from "../../base/errors.ts";
import { type ClientTls, type DialOptions, usesTls } from "../address/dial.ts";
import { isLoopbackTarget } from "../address/target.ts";

export interface TargetOptions {
  /** `unix:PATH`, `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. */
  target?: string;
  stateDir?: string;
  /**
   * Default: `$MOSAIC_TOKEN`, else the state directory's own token if the daemon was found there.
   */
  token?: string;
  /**
   * Default, also for each missing field: `$MOSAIC_TLS_CA`, `$MOSAIC_TLS_CERT` and
   * `$MOSAIC_TLS_KEY`.
   */
  tls?: ClientTls;
  /**
   * The name in the daemon's certificate, if it differs from the target's; default:
   * `$MOSAIC_TLS_SERVER_NAME`.
   */
  serverName?: string;
  env?: (name: string) => string | undefined;
}

export function environmentVariable(name: string): string | undefined {
  return Deno.env.get(name);
}

/** From the options, else from the environment. */
export function credentialsOf(
  options: TargetOptions,
  env: (name: string) => string | undefined,
): Omit<DialOptions, "target"> {
  return {
    token: options.token || env("MOSAIC_TOKEN") || undefined,
    tls: tlsOf(options.tls, env),
    serverName: options.serverName || env("MOSAIC_TLS_SERVER_NAME") || undefined,
  };
}

/**
 * Each file separately: a client that names the authority in its arguments may have its own
 * certificate in the environment.
 */
function tlsOf(
  given: ClientTls | undefined,
  env: (name: string) => string | undefined,
): ClientTls | undefined {
  const ca = given?.ca || env("MOSAIC_TLS_CA") || undefined;
  const cert = given?.cert || env("MOSAIC_TLS_CERT") || undefined;
  const key = given?.key || env("MOSAIC_TLS_KEY") || undefined;
  return given === undefined && ca === undefined && cert === undefined
    ? undefined
    : { ca, cert, key };
}

/**
 * @throws MosaicError `failed_precondition` if a token would be sent to another machine
 * unencrypted, `invalid_argument` for
 *   an invalid target.
 */
export function safeDialOptions(options: DialOptions): DialOptions {
  const { target, token } = options;
  if (isLoopbackTarget(target) || usesTls(options) || token === undefined) return options;
  throw new MosaicError("failed_precondition", `the token would be sent to ${target} unencrypted`, {
    hint:
      "Name the authority of the daemon's certificate with --tls-ca or $MOSAIC_TLS_CA, or give https://HOST:PORT.",
  });
}
