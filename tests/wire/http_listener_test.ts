/**
 * Connections that say nothing, or half of something, end; those that are being answered do not.
 */
import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import {
  type HttpAddress,
  listenHttp,
  WAITING,
  type Waiting,
} from "../../src/wire/http/http_listener.ts";
import { readTls } from "../../src/wire/address/tls.ts";
import { TlsUpgrade } from "../../src/wire/http/tls_upgrade.ts";
import { certificates } from "../rpc/auth/certificates.ts";
import { until } from "../harness/wait.ts";

const encoder = new TextEncoder();
const log = createLogger({ level: "fatal", format: "json", sinks: [] });

async function withListener(
  waiting: Waiting,
  work: (dial: () => Promise<Deno.Conn>, open: PromiseWithResolvers<void>) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const tcp: HttpAddress = { hostname: "127.0.0.1", port: 0 };
  const files = certificates(directory);
  for (
    const [address, tls] of [[tcp], [{ path: `${directory}/s.sock` }], [tcp, true]] as [
      HttpAddress,
      true?,
    ][]
  ) {
    const held = Promise.withResolvers<void>();
    const listener = listenHttp({
      address,
      log,
      waiting,
      tls: tls &&
        new TlsUpgrade(readTls(files.server), `${directory}/tls.sock`, { ...waiting, open: 1000 }),
      handler: async (request, { remoteAddr }) => {
        assert.equal(remoteAddr.transport, "path" in address ? "unix" : "tcp");
        if (request.url.endsWith("/held")) await held.promise;
        return new Response("answer");
      },
    });
    const [hostname, port] = listener.address.split(":");
    const dial = (): Promise<Deno.Conn> => {
      if ("path" in address) return Deno.connect({ transport: "unix", path: address.path });
      const options = { hostname, port: Number(port) };
      if (!tls) return Deno.connect(options);
      return Deno.connectTls({
        ...options,
        hostname: "localhost",
        caCerts: [Deno.readTextFileSync(files.ca)],
      });
    };
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
      ["", "GET / HT", WHOLE, `${WHOLE}GET`, "GET /held HTTP/1.1\r\nhost: a\r\n\r\n"].map(
        async (text) => {
          const connection = await dial();
          if (text !== "") await say(connection, text);
          return connection;
        },
      ),
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

/** Descriptors of this process. */
const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;

Deno.test("http listener: over TLS, peers without a handshake, or with half of one, are left, and give their descriptors back", async () => {
  const directory = await Deno.makeTempDir();
  const files = certificates(directory);
  const waiting = { headMs: 500, idleMs: 60_000, most: 60 };
  const listener = listenHttp({
    address: { hostname: "127.0.0.1", port: 0 },
    log,
    waiting,
    tls: new TlsUpgrade(readTls(files.server), `${directory}/tls.sock`, { ...waiting, open: 1000 }),
    handler: () => new Response("answer"),
  });
  const port = Number(listener.address.split(":")[1]);
  try {
    const before = descriptors();
    const peers = [];
    for (let i = 0; i < 100; i++) {
      const peer = await Deno.connect({ port });
      // A header of a record of 512 bytes, and the first of them.
      if (i % 2 === 0) await peer.write(new Uint8Array([22, 3, 1, 2, 0, 1]));
      peers.push(peer);
    }
    // Somebody who speaks no TLS.
    const plain = await Deno.connect({ port });
    await say(plain, WHOLE);
    peers.push(plain);
    const client = await Deno.connectTls({
      port,
      hostname: "localhost",
      caCerts: [Deno.readTextFileSync(files.ca)],
    });
    await say(client, WHOLE);
    assert.match(await hear(client, "answer"), /200 OK/);
    for (const peer of peers) assert.equal(await hear(peer, "never"), "");
    // The peers' own ends, and the client's three at the server and one of its own.
    await until(() => descriptors() <= before + peers.length + 4, {
      what: "the server's descriptors to be free",
    });
    await say(client, WHOLE);
    assert.match(await hear(client, "answer"), /200 OK/);
    client.close();
    for (const peer of peers) peer.close();
    await until(() => descriptors() <= before, { what: "all descriptors to be free" });
  } finally {
    await listener.stop();
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("http listener: over TLS, peers that take nothing of their answers are no more than a number, until they leave", async () => {
  const directory = await Deno.makeTempDir();
  const files = certificates(directory);
  let reports = 0;
  const listener = listenHttp({
    address: { hostname: "127.0.0.1", port: 0 },
    log,
    tls: new TlsUpgrade(
      readTls(files.server),
      `${directory}/tls.sock`,
      { ...WAITING, open: 4 },
      () => reports++,
    ),
    handler: () => new Response(new Uint8Array(64 << 20)),
  });
  const port = Number(listener.address.split(":")[1]);
  const caCerts = [Deno.readTextFileSync(files.ca)];
  const ask = async () => {
    const peer = await Deno.connectTls({ port, hostname: "localhost", caCerts });
    try {
      await say(peer, WHOLE);
      assert.match(await hear(peer, "\r\n\r\n"), /^HTTP.1.1 200/);
      return peer;
    } catch (error) {
      peer.close();
      throw error;
    }
  };
  const peers: Deno.Conn[] = [];
  try {
    while (peers.length < 4) peers.push(await ask());
    assert.equal(reports, 0);
    await assert.rejects(ask());
    await assert.rejects(ask());
    assert.equal(reports, 1, "reported once, not for each");
    peers.shift()!.close();
    peers.push(await until(() => ask().catch(() => undefined), { what: "room for another" }));
    reports = 0;
    await assert.rejects(ask());
    assert.equal(reports, 1, "there was room in between");
  } finally {
    for (const peer of peers) peer.close();
    await listener.stop();
    await Deno.remove(directory, { recursive: true });
  }
});
