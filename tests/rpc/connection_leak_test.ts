/**
 * What the daemon keeps of connections that have gone, of each way to its API. `.ci/run` opens
 * thousands by each way; by default there are as many as show what the runtime's node:http2 server
 * once kept.
 */
import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { certificates } from "./auth/certificates.ts";

/** Of each round; as many come before the first, which use everything once. */
const CONNECTIONS = LONG_TESTS ? 1500 : 400;
/** Fewer connections say less, so there are more rounds then. */
const ROUNDS = LONG_TESTS ? 3 : 6;
const AT_ONCE = 20;
/** Bytes of each connection; the runtime's node:http2 server keeps 22 KiB. */
const LEAST_LEAK = 4096;

function rssOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]) *
    1024;
}

async function many(count: number, one: () => Promise<unknown>): Promise<void> {
  let left = count;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (left-- > 0) await one();
  }));
}

/**
 * What the daemon keeps of connections that have gone, bytes each: of a later part, when all has
 * been used once.
 */
async function keptOf(daemon: TestDaemon, one: () => Promise<unknown>): Promise<number> {
  await many(CONNECTIONS, one);
  let kept = Infinity;
  // On a busy machine memory is collected late. What is kept for ever is kept in each round.
  for (let round = 0; round < ROUNDS && kept >= LEAST_LEAK; round++) {
    const before = rssOf(daemon.pid);
    await many(CONNECTIONS, one);
    kept = (rssOf(daemon.pid) - before) / CONNECTIONS;
  }
  return kept;
}

Deno.test("leak: the daemon keeps nothing of API connections that have gone, by any way to it", async (t) => {
  const directory = Deno.makeTempDirSync();
  try {
    const files = certificates(directory);
    const tls = ["--tls-cert", files.server.cert, "--tls-key", files.server.key];
    // To find out a TCP peer's user, the daemon reads the kernel's table, which has each of these
    // connections for a minute.
    const args = ["--listen", "none", ...LONG_TESTS ? [] : ["--auth", "none"]];
    await using daemon = await TestDaemon.start({ args });
    await using secured = await TestDaemon.start({ args: [...args, ...tls] });
    const call = async (
      target: string,
      options: ConstructorParameters<typeof MosaicClient>[1] = {},
    ) => {
      const client = new MosaicClient(target, options);
      try {
        await client.unary(Mosaic.method.getHost, {});
      } finally {
        client.close();
      }
    };
    const ways: [string, TestDaemon, () => Promise<void>][] = [
      ["Unix socket", daemon, () => call(`unix:${daemon.layout.trainer}/daemon.sock`)],
      ["TCP", daemon, () => call(daemon.http)],
      [
        "TLS",
        secured,
        () => call(`https://localhost:${secured.http.split(":")[1]}`, { tls: { ca: files.ca } }),
      ],
      ["HTTP/2", daemon, () => http2Call(daemon.http)],
    ];
    for (const [name, of, one] of ways) {
      await t.step(name, async () => {
        const kept = await keptOf(of, one);
        assert.ok(kept < LEAST_LEAK, `${Math.round(kept)} bytes of each`);
      });
    }
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

async function http2Call(address: string): Promise<void> {
  const session = connectHttp2(`http://${address}`);
  session.on("error", () => {});
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": "/mosaic.v1.Mosaic/GetHost",
      "content-type": "application/proto",
    });
    stream.end();
    await new Promise((resolve, reject) => stream.on("error", reject).on("end", resolve).resume());
  } finally {
    session.close();
  }
}
