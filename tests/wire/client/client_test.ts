import assert from "node:assert/strict";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { until } from "../../harness/wait.ts";
import { hasCode } from "../../registry/fixture.ts";
import { certificates } from "../../rpc/auth/certificates.ts";
import { executing } from "../../rpc/fixture.ts";
import { drained, listening, TRANSPORTS, withApi } from "./peer.ts";

const { getHost, streamTelemetry, streamEvents, getRun } = Mosaic.method;

for (const transport of TRANSPORTS) {
  Deno.test(`client over ${transport}: calls one after the other share a connection; errors come with code and hint`, () =>
    withApi(transport, async ({ client, connections, core }) => {
      for (let i = 0; i < 5; i++) {
        assert.equal((await client.unary(getHost, {})).version, "1.2.3-test");
      }
      await assert.rejects(client.unary(getRun, { run: "nobody" }), hasCode("not_found"));
      await assert.rejects(
        client.unary(TrainerService.method.submitRun, { configJson: "{}" }),
        (error) => {
          assert.match((error as { hint?: string }).hint!, /mosaic submit --check/);
          return hasCode("invalid_argument", /run_name is missing.*entry_point is missing/s)(error);
        },
      );
      core.failure = new Error("a secret of the daemon");
      await assert.rejects(
        client.unary(getRun, { run: executing(core) }),
        hasCode("internal", /^internal error/),
      );
      if (transport !== "unix") assert.equal(connections.size, 1);
      const many = await Promise.all(Array.from({ length: 20 }, () => client.unary(getHost, {})));
      assert.equal(many.length, 20);
    }));

  Deno.test(`client over ${transport}: large messages go there and back`, () =>
    withApi(transport, async ({ client, core }) => {
      // Of texts as long as a config may contain them.
      const texts = Array.from({ length: 50 }, (_, i) => [`TEXT_${i}`, "ä".repeat(60_000)]);
      const environment = Object.fromEntries(texts);
      const configJson = configOf({ command: ["/bin/true"], environment });
      const answer = await client.unary(Mosaic.method.validateConfig, { configJson });
      assert.ok(
        answer.canonicalJson === core.validate(configJson).canonicalJson,
        "it has come back whole",
      );
      assert.ok(answer.canonicalJson.length > 3_000_000);
      const tooLarge = client.unary(Mosaic.method.validateConfig, {
        configJson: "x".repeat(70_000_000),
      });
      await assert.rejects(tooLarge, hasCode("resource_exhausted"));
      assert.equal((await client.unary(getHost, {})).version, "1.2.3-test");
    }));

  Deno.test(`client over ${transport}: a stream that is left, or aborted, is over for the daemon, too`, () =>
    withApi(transport, async ({ client, core, calls }) => {
      const run = executing(core);
      const abort = new AbortController();
      // Nothing is there after so high a number.
      const next = client.stream(streamEvents, { run, sinceSeq: 1000n, follow: true }, abort.signal)
        .next();
      await until(() => calls.length === 1, { what: "the stream to be open" });
      abort.abort();
      assert.deepEqual(await next, { value: undefined, done: true });
      for await (const _ of client.stream(streamEvents, { run, follow: true })) break;
      const cancelled = () =>
        core.activity.rpcCalls.entries().find(([key]) =>
          key === "mosaic.v1.Mosaic/StreamEvents cancelled"
        )?.[1];
      await until(() => cancelled() === 2, {
        what: "the daemon to see both",
        state: () => core.activity.rpcCalls.entries(),
      });
      assert.equal((await client.unary(getHost, {})).version, "1.2.3-test");
    }));

  Deno.test(`client over ${transport}: what ends a stream is told after all that came before`, () =>
    withApi(transport, async ({ client }) => {
      const stream = client.stream(streamTelemetry, { run: "nobody", kind: "steps" });
      await assert.rejects(stream.next(), hasCode("not_found"));
    }));
}

Deno.test("client: a connection that the daemon has closed meanwhile is followed by another", () =>
  withApi("tcp", async ({ target }) => {
    const [hostname, port] = target.split(":") as [string, string];
    const peer = listening(async (connection, n) => {
      const daemon = await Deno.connect({ hostname, port: Number(port) });
      const back = (async () => {
        const buffer = new Uint8Array(65_536);
        for (let length; (length = await daemon.read(buffer)) !== null;) {
          await connection.write(buffer.subarray(0, length));
          // It ends after its first answer.
          if (n === 0) return connection.close();
        }
      })();
      const buffer = new Uint8Array(65_536);
      for (let length; (length = await connection.read(buffer).catch(() => null)) !== null;) {
        await daemon.write(buffer.subarray(0, length));
      }
      daemon.close();
      await back.catch(() => {});
    });
    const client = new MosaicClient(peer.target, { deadlineMs: 30_000 });
    try {
      for (let i = 0; i < 3; i++) {
        await client.unary(getHost, {});
        if (i === 0) await until(() => peer.open === 0, { what: "the first connection to end" });
      }
      assert.equal(peer.accepted, 2);
    } finally {
      client.close();
      await peer.close();
    }
  }));

Deno.test("client: where connections end without an answer, a call is made twice, one that may do harm once", async () => {
  const peer = listening(async (connection) => void await connection.read(new Uint8Array(65_536)));
  const client = new MosaicClient(peer.target, { deadlineMs: 30_000 });
  try {
    await assert.rejects(
      client.unary(getHost, {}),
      hasCode("unavailable", /broke off before it answered/),
    );
    assert.equal(peer.accepted, 2);
    await assert.rejects(client.unary(TrainerService.method.submitRun, {}), hasCode("unavailable"));
    assert.equal(peer.accepted, 3);
    await assert.rejects(client.stream(streamEvents, {}).next(), hasCode("unavailable"));
  } finally {
    client.close();
    await peer.close();
  }
});

Deno.test("client: connections on which nobody answers are closed, however many calls run out of time", async () => {
  const peer = listening(drained);
  const client = new MosaicClient(peer.target, { deadlineMs: 50 });
  try {
    for (let i = 0; i < 5; i++) {
      await assert.rejects(client.unary(getHost, {}), hasCode("deadline_exceeded", /0\.05 s/));
    }
    const abort = new AbortController();
    const cancelled = client.unary(getHost, {}, { signal: abort.signal, deadlineMs: 30_000 });
    abort.abort();
    await assert.rejects(cancelled, hasCode("aborted"));
    await until(() => peer.open === 0, { what: "all connections to be closed" });
    const left = client.unary(getHost, {}, { deadlineMs: 30_000 });
    client.close();
    await assert.rejects(left, hasCode("aborted"));
  } finally {
    client.close();
    await peer.close();
  }
});

Deno.test("client: what breaks off in mid-answer, and what is no daemon, are told apart", async () => {
  const answers: [string, RegExp][] = [
    [
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
      /broke off in the middle of its answer/,
    ],
    ["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", /broke off in the middle of its answer/],
    ["HTTP/1.1 200 OK\r\nn", /broke off before it answered/],
    [
      "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
      /not a daemon's API: HTTP status 404/,
    ],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", /a chunk's size is "zz"/],
    ["SSH-2.0-OpenSSH_9.2\r\n", /does not speak HTTP\/1\.1/],
    ["\0\0\0\x04\0\0\0\0\0\n", /does not speak HTTP\/1\.1/],
    ["x".repeat(70_000), /a line has no end/],
  ];
  for (const [answer, said] of answers) {
    const peer = listening(async (connection) => {
      await connection.read(new Uint8Array(65_536));
      const bytes = new TextEncoder().encode(answer);
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
      await connection.closeWrite();
      await drained(connection);
    });
    const client = new MosaicClient(peer.target, { deadlineMs: 30_000 });
    try {
      await assert.rejects(client.unary(getHost, {}), hasCode("unavailable", said));
    } finally {
      client.close();
      await peer.close();
    }
  }
});

Deno.test("client: a reader that stands still stops the sender; a daemon that goes in mid-stream is told", async () => {
  // An envelope, and in it a field of bytes that no message here has.
  const message = new Uint8Array(65_536);
  new DataView(message.buffer).setUint32(1, message.length - 5);
  const length = message.length - 5 - 5;
  message.set([0xfa, 0x3f, length & 0x7f | 0x80, length >> 7 & 0x7f | 0x80, length >> 14], 5);
  let sent = 0;
  const abort = new AbortController();
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
    signal: abort.signal,
  }, () => {
    const body = new ReadableStream({
      pull(controller) {
        sent += message.length;
        controller.enqueue(message.slice());
      },
    });
    return new Response(body, { headers: { "content-type": "application/connect+proto" } });
  });
  const client = new MosaicClient(`127.0.0.1:${(server.addr as Deno.NetAddr).port}`);
  const stream = client.stream(streamTelemetry, {});
  try {
    // One is asked for, of which the fields say nothing.
    assert.equal((await stream.next()).done, false);
    let before = -1;
    let looks = 0;
    const stands = () => (looks = before === (before = sent) ? looks + 1 : 0) > 10;
    await until(stands, { what: "the sender to stand still" });
    assert(sent < 16 << 20, `${sent} bytes were taken without being asked for`);
    for (let i = 0; i < 500; i++) await stream.next();
    assert(sent > 30_000_000);
    abort.abort();
    await assert.rejects(async () => {
      while (!(await stream.next()).done);
    }, hasCode("unavailable"));
    const gone = client.stream(streamTelemetry, {});
    await assert.rejects(gone.next(), hasCode("unavailable", /^no daemon answers at /));
  } finally {
    client.close();
    await server.finished;
  }
});

Deno.test("client: TLS that fails says why", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-client-" });
  const { ca, server, client: own } = certificates(directory);
  const pem = { cert: Deno.readTextFileSync(server.cert), key: Deno.readTextFileSync(server.key) };
  const https = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {}, ...pem },
    () => new Response("no"),
  );
  const plain = listening(async (connection) => {
    await connection.read(new Uint8Array(65_536));
    await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await connection.closeWrite();
    await drained(connection);
  });
  const port = (https.addr as Deno.NetAddr).port;
  const cases: [
    target: string,
    options: ConstructorParameters<typeof MosaicClient>[1],
    said: RegExp,
  ][] = [
    [
      `127.0.0.1:${port}`,
      { tls: { ca: own.cert } },
      /TLS with the daemon at .* failed: .*certificate/,
    ],
    [`https://127.0.0.1:${port}`, {}, /TLS with the daemon at .* failed: .*certificate/],
    [
      `127.0.0.1:${port}`,
      { tls: { ca }, serverName: "somebody-else" },
      /TLS with the daemon at .* failed: .*somebody-else/,
    ],
    [plain.target, { tls: { ca } }, /TLS with the daemon at .* failed: /],
    ["127.0.0.1:1", { tls: { ca } }, /no daemon answers/],
    [`127.0.0.1:${port}`, { tls: { ca: "/no/ca.pem" } }, /--tls-ca \/no\/ca\.pem cannot be read/],
    [
      `127.0.0.1:${port}`,
      { tls: { ca, ...own }, serverName: "x" },
      /cannot both show a client's certificate/,
    ],
    [`127.0.0.1:${port}`, { tls: { ca, cert: own.cert } }, /needs both/],
  ];
  try {
    for (const [target, options, said] of cases) {
      const client = new MosaicClient(target, { ...options, deadlineMs: 30_000 });
      await assert.rejects(client.unary(getHost, {}), said, `${target} ${JSON.stringify(options)}`);
      client.close();
    }
  } finally {
    await plain.close();
    await https.shutdown();
    Deno.removeSync(directory, { recursive: true });
  }
});
