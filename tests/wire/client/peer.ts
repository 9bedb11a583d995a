/** What answers a client in its tests. */
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { apiOf, servicesOf } from "../../../src/rpc/services.ts";
import { readTls } from "../../../src/wire/address/tls.ts";
import { listenHttp, WAITING } from "../../../src/wire/http/http_listener.ts";
import { TlsUpgrade } from "../../../src/wire/http/tls_upgrade.ts";
import { certificates } from "../../rpc/auth/certificates.ts";
import { RecordedEngine } from "../../rpc/fixture.ts";

export const TRANSPORTS = ["unix", "tcp", "tls"] as const;

export interface Served {
  core: RecordedEngine;
  client: MosaicClient;
  directory: string;
  target: string;
  /** Paths of the calls that came. */
  calls: string[];
  /** How many connections the calls came by. */
  connections: Set<string>;
}

/** The API as the daemon serves it, over one transport, and a client of it. */
export async function withApi(
  transport: typeof TRANSPORTS[number],
  work: (served: Served) => Promise<void>,
): Promise<void> {
  await using core = new RecordedEngine();
  const { directory } = core;
  const services = servicesOf(core, { log: core.log });
  const api = apiOf(services);
  const files = transport === "tls" ? certificates(directory) : undefined;
  const calls: string[] = [];
  const connections = new Set<string>();
  const listener = listenHttp({
    address: transport === "unix"
      ? { path: `${directory}/d.sock` }
      : { hostname: "127.0.0.1", port: 0 },
    tls: files &&
      new TlsUpgrade(readTls(files.server), `${directory}/tls.sock`, { ...WAITING, open: 100 }),
    log: core.log,
    handler: (request, { remoteAddr }) => {
      const { pathname } = new URL(request.url);
      calls.push(pathname);
      connections.add(JSON.stringify(remoteAddr));
      return api.answer(pathname, request, { name: "test", owner: true });
    },
  });
  const target = transport === "unix" ? `unix:${listener.address}` : listener.address;
  const client = new MosaicClient(target, {
    deadlineMs: 30_000,
    ...(files ? { tls: { ca: files.ca } } : {}),
  });
  try {
    await work({ core, client, directory, target, calls, connections });
  } finally {
    client.close();
    services.stop();
    await listener.stop();
  }
}

/** Takes TCP connections, and gives each to `serve` with its number, from 0. */
export function listening(serve: (connection: Deno.Conn, n: number) => Promise<void>) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let accepted = 0;
  let open = 0;
  const served = (async () => {
    const all: Promise<void>[] = [];
    for await (const connection of listener) {
      open++;
      all.push(
        serve(connection, accepted++).catch(() => {}).finally(() => {
          open--;
          try {
            connection.close();
          } catch {
            // It is closed already.
          }
        }),
      );
    }
    await Promise.all(all);
  })();
  return {
    target: `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`,
    get accepted() {
      return accepted;
    },
    get open() {
      return open;
    },
    async close() {
      listener.close();
      await served;
    },
  };
}

/** Reads until the other end leaves. */
export async function drained(connection: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(4096);
  while (await connection.read(buffer) !== null);
}
