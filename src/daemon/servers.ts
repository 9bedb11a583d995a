/** The daemon's two servers, started together or not at all. */
import type { Core } from "../core/core.ts";
import { MosaicError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { isLoopback, parseListen } from "../rpc/listen.ts";
import { startRpc } from "../rpc/server.ts";
import { parseAddress, startPage } from "../ui/server.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

export interface Servers {
  /** Addresses as clients dial them; `http` is "" when the page is off. */
  listen: string;
  http: string;
  stop(): Promise<void>;
}

/** @throws StartFailure (usage, addressTaken) */
export async function startServers(
  core: Core,
  options: { listen: string; http: string; log: Logger; accepting: () => boolean },
): Promise<Servers> {
  try {
    requireLoopback(options);
    const rpc = await startRpc(core, { listen: options.listen, log: options.log });
    try {
      const page = options.http === "off" ? undefined : await startPage(core, options);
      return {
        listen: rpc.address,
        http: page?.address ?? "",
        async stop() {
          await Promise.all([rpc.stop(), page?.stop()]);
        },
      };
    } catch (error) {
      await rpc.stop(0);
      throw error;
    }
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    const code = error.code === "invalid_argument" ? DAEMON_EXIT.usage : DAEMON_EXIT.addressTaken;
    throw new StartFailure(code, error.message, error.hint);
  }
}

/** Whoever reaches the daemon may run programs as its user. */
function requireLoopback({ listen, http }: { listen: string; http: string }): void {
  const open: string[] = [];
  if (!isLoopback(parseListen(listen))) open.push(`--listen ${listen}`);
  if (http !== "off") {
    const { hostname, port } = parseAddress(http);
    if (!isLoopback({ type: "tcp", host: hostname, port })) open.push(`--http ${http}`);
  }
  if (open.length === 0) return;
  throw new MosaicError("invalid_argument", `${open.join(" and ")}: others than this machine could reach it`, {
    hint: "Listen on 127.0.0.1 or a Unix socket, and let others in by SSH (ssh -L 8055:127.0.0.1:8055 HOST).",
  });
}
