import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import http2 from "node:http2";
import type net from "node:net";
import { FLAG, FRAME, frameOf, settings } from "../../src/wire/http/http2.ts";
import { Http2Call, type KeepAlive } from "../../src/wire/http/http2_call.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { pause } from "../../src/wire/http/waiting.ts";
import { until } from "../harness/wait.ts";

type Dial = (signal: AbortSignal) => Promise<Deno.Conn>;

function callTo(dial: Dial, keepAlive?: KeepAlive) {
  return new Http2Call({
    dial,
    headers: [[":method", "POST"], [":scheme", "http"], [":path", "/"], [
      ":authority",
      "localhost",
    ]],
    keepAlive,
  });
}

/** A real server, at a port and at a socket. */
async function withServer(
  onStream: (stream: http2.ServerHttp2Stream) => void,
  test: (dial: Dial, server: http2.Http2Server) => Promise<void>,
  settings: http2.Settings = {},
): Promise<void> {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/s`;
  for (const at of [{ host: "127.0.0.1", port: 0 }, { path }]) {
    const server = http2.createServer({ settings });
    server.on("stream", onStream);
    const sessions: http2.ServerHttp2Session[] = [];
    server.on("session", (session) => sessions.push(session));
    await new Promise<void>((resolve) => server.listen(at, resolve));
    const { port } = server.address() as net.AddressInfo;
    const dial: Dial = (signal) =>
      "path" in at
        ? Deno.connect({ transport: "unix", path })
        : Deno.connect({ hostname: "127.0.0.1", port, signal });
    try {
      await test(dial, server);
    } finally {
      sessions.forEach((session) => session.destroy());
      await new Promise<void>((resolve) => server.close(() => resolve()));
    }
  }
  Deno.removeSync(directory, { recursive: true });
}

function pattern(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) & 255);
}

async function read(answer: AsyncGenerator<Uint8Array, void>, length: number): Promise<Uint8Array> {
  const all = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const { value } = await answer.next();
    assert(value !== undefined, `the answer ends after ${at} bytes`);
    all.set(value, at);
    at += value.length;
  }
  return all;
}

// Windows of less than a frame, of the least that clients begin with, and of more than is ever sent
// at once.
for (const initialWindowSize of [1000, 65_535, 1 << 20]) {
  Deno.test(`http2 call: megabytes go there and back, with a window of ${initialWindowSize}`, async () => {
    const bytes = pattern(3_000_001);
    const echo = (stream: http2.ServerHttp2Stream) => {
      stream.respond({ ":status": 200 });
      stream.on("data", (chunk: Buffer) => stream.write(chunk));
      stream.on("error", () => {});
    };
    await withServer(echo, async (dial) => {
      const call = callTo(dial);
      try {
        for (let at = 0; at < bytes.length; at += 70_000) {
          call.send(bytes.subarray(at, at + 70_000));
        }
        assert.deepEqual(await read(call.answer(), bytes.length), bytes);
        assert.equal(call.status, 200);
      } finally {
        call.cancel();
      }
    }, { initialWindowSize });
  });
}

Deno.test("http2 call: headers and trailers that say nothing of use are passed over; the end of the stream is the end", async () => {
  const visible = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join("").trim();
  const trailers = { "grpc-status": "0", "x-long": `${visible}0123456789 aceiost`.repeat(300) };
  let gone = false;
  await withServer((stream) => {
    stream.respond({ ":status": 200, "x-visible": visible }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.end("done");
    gone = false;
    stream.session!.once("close", () => gone = true);
  }, async (dial) => {
    const call = callTo(dial);
    const answer = call.answer();
    assert.equal(new TextDecoder().decode(await read(answer, 4)), "done");
    assert.equal((await answer.next()).done, true);
    assert.equal(call.status, 200);
    await until(() => gone, { what: "the connection to be closed, though nobody has cancelled" });
  });
});

Deno.test("http2 call: pings are answered; one who goes in order lets the call end", async () => {
  let session: http2.ServerHttp2Session | undefined;
  let stream: http2.ServerHttp2Stream | undefined;
  await withServer((opened) => {
    stream = opened;
    session = opened.session as http2.ServerHttp2Session;
    opened.respond({ ":status": 200 });
    opened.write("a");
  }, async (dial) => {
    const call = callTo(dial);
    const answer = call.answer();
    await read(answer, 1);
    const rest = read(answer, 1);
    const sent = Buffer.from("12345678");
    const echoed = await new Promise<Buffer>((resolve, reject) =>
      session!.ping(sent, (error, _, payload) => error === null ? resolve(payload) : reject(error))
    );
    assert.deepEqual([...echoed], [...sent]);
    session!.goaway(0);
    stream!.end("b");
    await rest;
    assert.equal((await answer.next()).done, true);
    call.cancel();
  });
});

Deno.test("http2 call: a cancelled one is gone for the other end, and for who reads it", async () => {
  let streams = 0;
  let gone = 0;
  await withServer((stream) => {
    streams++;
    stream.respond({ ":status": 200 });
    stream.write("a");
    stream.on("error", () => {});
    stream.on("close", () => gone++);
  }, async (dial) => {
    const call = callTo(dial);
    const answer = call.answer();
    await read(answer, 1);
    const next = answer.next().then(() => "ended", () => "thrown");
    call.cancel();
    call.cancel();
    call.send(new Uint8Array(1));
    assert.equal(await next, "thrown");
    await until(() => gone === streams, { what: "the server to see it" });
    // Before it is connected, too.
    const early = callTo(dial);
    early.cancel();
    await assert.rejects(early.answer().next());
  });
});

/** Each number in four bytes. */
function numbers(...values: number[]): Uint8Array {
  const bytes = new Uint8Array(values.length * 4);
  values.forEach((value, i) => new DataView(bytes.buffer).setUint32(i * 4, value));
  return bytes;
}

Deno.test("http2 call: one who hangs up, breaks off or speaks something else is told as that", async () => {
  const text = (value: string) => new TextEncoder().encode(value);
  const begun = [...settings([]), ...frameOf(99, 255, 0, text("of a kind that nobody knows"))];
  const padded = Uint8Array.of(9, 1);
  const endless = Array.from(
    { length: 5 },
    () => [...frameOf(FRAME.continuation, 0, 1, new Uint8Array(16_384))],
  )
    .flat();
  const answers: [Iterable<number>, RegExp][] = [
    ["", /the connection has ended/],
    ["\0\0", /the connection has ended/],
    [
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
      /is not a daemon: it does not speak HTTP\/2/,
    ],
  ].map(([bytes, message]) => [text(bytes as string), message as RegExp]);
  answers.push(
    [
      [...begun, ...frameOf(FRAME.resetStream, 0, 1, numbers(2))],
      /broken off the stream \(HTTP\/2 code 2\)/,
    ],
    [
      [...begun, ...frameOf(FRAME.goAway, 0, 0, numbers(1, 11))],
      /broken off the connection \(HTTP\/2 code 11\)/,
    ],
    [
      [...begun, ...frameOf(FRAME.goAway, 0, 0, numbers(0, 0))],
      /broken off the connection \(HTTP\/2 code 0\)/,
    ],
    [[...begun, ...frameOf(FRAME.goAway, 0, 0, numbers(1, 0))], /the connection has ended/],
    [[...begun, ...frameOf(FRAME.goAway, 0, 0, numbers(1))], /does not speak HTTP\/2/],
    [[...begun, ...frameOf(FRAME.data, FLAG.padded, 1, padded)], /more padding than that/],
    [
      [...begun, ...frameOf(FRAME.headers, 0, 1, new Uint8Array()), ...endless],
      /headers have no end/,
    ],
  );
  for (const [answer, message] of answers) {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const call = callTo((signal) => Deno.connect({ hostname: "127.0.0.1", port, signal }));
    const next = call.answer().next().catch((error) => error);
    using accepted = await listener.accept();
    await accepted.read(new Uint8Array(1000));
    const bytes = Uint8Array.from(answer);
    for (let at = 0; at < bytes.length;) at += await accepted.write(bytes.subarray(at));
    await accepted.closeWrite();
    const error = await next;
    assert(error instanceof MosaicError && error.code === "unavailable", String(error));
    assert.match(error.message, message);
    call.cancel();
  }
});

Deno.test("http2 call: a connection that answers no ping is given up, one that is only idle is not", async () => {
  const keepAlive = { afterMs: 20, withinMs: 1000 };
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const silent = callTo(
    (signal) => Deno.connect({ hostname: "127.0.0.1", port, signal }),
    keepAlive,
  );
  await assert.rejects(silent.answer().next(), (error) => {
    assert(error instanceof MosaicError && error.code === "unavailable");
    assert.match(error.message, /nothing was received over the connection for 1.02 s/);
    return true;
  });
  silent.cancel();

  let stream: http2.ServerHttp2Stream | undefined;
  await withServer((opened) => {
    stream = opened;
    opened.respond({ ":status": 200 });
    opened.write("a");
  }, async (dial) => {
    let pings = 0;
    const call = callTo(async (signal) => {
      const conn = await dial(signal);
      const write = conn.write.bind(conn);
      conn.write = (bytes) => {
        if (bytes.length === 17 && bytes[3] === FRAME.ping && bytes[4] === 0) pings++;
        return write(bytes);
      };
      return conn;
    }, keepAlive);
    const answer = call.answer();
    await read(answer, 1);
    const rest = read(answer, 1);
    await until(() => pings > 2, { what: "it to be asked again and again" });
    stream!.end("b");
    await rest;
    call.cancel();
  });
});

Deno.test("http2 call: whoever pauses for long finds the daemon alive, and all that it sent", async () => {
  let stream: http2.ServerHttp2Stream | undefined;
  await withServer((opened) => {
    stream = opened;
    opened.respond({ ":status": 200 });
    opened.write("a");
  }, async (dial) => {
    const call = callTo(dial, { afterMs: 500, withinMs: 500 });
    const answer = call.answer();
    await read(answer, 1);
    // Several times what a silent daemon has.
    await pause(3000);
    stream!.end("b");
    await read(answer, 1);
    call.cancel();
  });
});

Deno.test("http2 call: nothing is sent beyond the window of one who does not read", async () => {
  let held: http2.ServerHttp2Stream | undefined;
  const size = 1 << 20;
  let taken = 0;
  await withServer((stream) => {
    held = stream;
    taken = 0;
    stream.respond({ ":status": 200 });
    stream.write("a");
    stream.pause();
    stream.on("error", () => {});
  }, async (dial) => {
    let written = 0;
    const call = callTo(async (signal) => {
      const conn = await dial(signal);
      const write = conn.write.bind(conn);
      conn.write = async (bytes) => {
        const count = await write(bytes);
        written += count;
        return count;
      };
      return conn;
    });
    call.send(new Uint8Array(size));
    const answer = call.answer();
    await read(answer, 1);
    const rest = answer.next();
    await until(() => written > 65_535, { what: "a window to be sent" });
    assert(written < 2 * 65_535 + 1000, `${written} bytes were written`);
    held!.on("data", (chunk: Buffer) => {
      taken += chunk.length;
      if (taken === size) held!.end("b");
    });
    held!.resume();
    assert.equal((await rest).value?.length, 1);
    assert(written > size);
    call.cancel();
  });
});
