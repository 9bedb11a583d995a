/** The page of an engine, served over HTTP as the daemon does. */
import { createApp } from "../../src/ui/app.ts";
import { listenHttp } from "../../src/wire/http/http_listener.ts";
import type { PlayedEngine } from "../harness/played_engine.ts";

export interface Served {
  address: string;
  stop(): Promise<void>;
}

export function servePage(core: PlayedEngine, port = 0): Served {
  const hostname = "127.0.0.1";
  const page = createApp(core, { log: core.log, bound: hostname, tickMs: 250 });
  const server = listenHttp({
    address: { hostname, port },
    log: core.log,
    handler: (request) => page.fetch(request),
  });
  const stop = async () => {
    page.stop();
    await server.stop();
  };
  return { address: server.address, stop };
}
