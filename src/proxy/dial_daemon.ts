/** How the proxy connects: address, token and TLS files. */
import { credentialsOf, environmentVariable, safeDialOptions } from "../client/dial_options.ts";
import type { DialOptions } from "../wire/dial.ts";
import type { ProxyArguments } from "./arguments.ts";
import type { StartPlan } from "./start_plan.ts";

/** @throws when a token or certificate cannot be read, or the token would travel unencrypted. */
export function dialOptions(args: ProxyArguments, { start, standAlone }: StartPlan, target: string): DialOptions {
  const { tokenFile, tlsCaFile, tlsServerName } = args;
  const ca = tlsCaFile ?? start.tls?.ca ?? undefined;
  const given = {
    // Read each time: tokens are rotated.
    token: tokenFile === undefined ? start.sessionToken : Deno.readTextFileSync(tokenFile).trim(),
    tls: ca === undefined ? undefined : { ca },
    serverName: tlsServerName,
  };
  // What a daemon was given for its own clients is not for its proxies.
  return safeDialOptions({ target, ...credentialsOf(given, standAlone ? environmentVariable : () => undefined) });
}
