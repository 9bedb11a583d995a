/** Connections that say nothing, or half of something, end; those that are being answered do not. */
import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import { type HttpAddress, listenHttp, type Waiting } from "../../src/wire/http_listener.ts";
import { until } from "../harness/wait.ts";

const encoder = new TextEncoder();
const log = createLogger({ level: "fatal", format: "json", sinks: [] });

async function withListener(
  waiting: Waiting,
  work: (dial: () => Promise<Deno.Conn>, open: PromiseWithResolvers<void>) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const addresses: HttpAddress[] = [{ hostname: "127.0.0.1", port: 0 }, { path: `${directory}/s.sock` }];
  for (const address of addresses) {
    const held = Promise.withResolvers<void>();
    const listener = listenHttp({
      address,
      log,
      waiting,
      handler: async (request, { remoteAddr }) => {
        assert.equal(remoteAddr.transport, "path" in address ? "unix" : "tcp");
        if (request.url.endsWith("/held")) await held.promise;
        return new Response("answer");
      },
    });
    const [hostname, port] = listener.address.split(":");
    const dial = () =>
      "path" in address
        ? Deno.connect({ transport: "unix", path: address.path })
        : Deno.connect({ hostname, port: Number(port) });
    try {
      await work(dial, held);
    } finally {
      held.resolve();
      await listener.stop();
    }
  }
  await Deno.remove(directory, { recursive: true });
}

async function say(connection: Deno.Conn, text: string): Promise<void> {
  await connection.write(encoder.encode(text));
}

/** What comes until `text` is there; "" when the connection ends before. */
async function hear(connection: Deno.Conn, text: string): Promise<string> {
  let heard = "";
  const buffer = new Uint8Array(4096);
  while (!heard.includes(text)) {
    const read = await connection.read(buffer).catch(() => null);
    if (read === null) return "";
    heard += new TextDecoder().decode(buffer.subarray(0, read));
  }
  return heard;
}

const WHOLE = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

Deno.test("http listener: half a request's head, nothing at all, half of a second request: each connection ends by itself", async () => {
  await withListener({ headMs: 300, idleMs: 300, most: 512 }, async (dial, held) => {
    const connections = await Promise.all(
      ["", "GET / HT", WHOLE, `${WHOLE}GET`, "GET /held HTTP/1.1\r\nhost: a\r\n\r\n"].map(async (text) => {
        const connection = await dial();
        if (text !== "") await say(connection, text);
        return connection;
      }),
    );
    const answering = connections.pop()!;
    for (const connection of connections) {
      // An answer, where a whole request was sent, and then the end.
      assert.equal(await hear(connection, "never"), "");
      connection.close();
    }
    held.resolve();
    assert.match(await hear(answering, "answer"), /200 OK/);
    answering.close();
  });
});

Deno.test("http listener: 500 half-sent requests keep nobody from being served, and the oldest make room", async () => {
  await withListener({ headMs: 60_000, idleMs: 60_000, most: 16 }, async (dial) => {
    let ended = 0;
    const half = [];
    for (let i = 0; i < 500; i++) {
      const connection = await dial();
      await say(connection, "POST / HTTP/1.1\r\nhost: a\r\nx-half: ");
      half.push(connection);
      hear(connection, "never").then(() => ended++);
    }
    const client = await dial();
    await say(client, WHOLE);
    assert.match(await hear(client, "answer"), /200 OK/);
    await until(() => ended >= 500 - 16, { what: "all but the newest to end" });
    // One that was answered stays, however many begin beside it.
    await say(client, WHOLE);
    assert.match(await hear(client, "answer"), /200 OK/);
    for (const connection of [client, ...half]) connection.close();
  });
});
