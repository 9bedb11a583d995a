/** How the proxy connects: address, token and TLS files. */
import {
  credentialsOf,
  environmentVariable,
  safeDialOptions,
} from "../../wire/client/dial_options.ts";
import type { DialOptions } from "../../wire/address/dial.ts";
import type { ProxyArguments } from "../start/arguments.ts";
import type { StartPlan } from "../start/start_plan.ts";

/** @throws if a token or certificate cannot be read, or the token would be sent unencrypted. */
export function dialOptions(
  args: ProxyArguments,
  { start, standAlone }: StartPlan,
  target: string,
): DialOptions {
  const { tokenFile, tlsCaFile, tlsServerName } = args;
  const ca = tlsCaFile ?? start.tls?.ca ?? undefined;
  const given = {
    // Read each time, because tokens are rotated.
    token: tokenFile === undefined ? start.sessionToken : Deno.readTextFileSync(tokenFile).trim(),
    tls: ca === undefined ? undefined : { ca },
    serverName: tlsServerName,
  };
  // Credentials for the daemon's own clients are not for its proxies.
  return safeDialOptions({
    target,
    ...credentialsOf(given, standAlone ? environmentVariable : () => undefined),
  });
}
