import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { BufferPool } from "../../src/rpc/connect/buffers.ts";
import { EnvelopedIncoming } from "../../src/rpc/connect/envelopes.ts";
import { Interruption } from "../../src/rpc/call/interruption.ts";
import { envelope } from "../../src/wire/http/connect.ts";
import { hasCode } from "../registry/fixture.ts";

const MOST = 4 << 20;
const NEVER = new AbortController().signal;

/** A message whose bytes say which it is. */
function messageOf(n: number, length: number): Uint8Array {
  return new Uint8Array(length).map((_, i) => (n * 31 + i * 7) & 255);
}

/** A body in chunks of so many bytes, by turns. */
function bodyOf(
  bytes: Uint8Array,
  chunks: readonly number[],
  type?: "bytes",
): ReadableStream<Uint8Array> {
  let at = 0;
  let turns = 0;
  const next = () => {
    const from = at;
    at += chunks[turns++ % chunks.length]!;
    return bytes.slice(from, at);
  };
  if (type === undefined) {
    return new ReadableStream<Uint8Array>({
      pull: (controller) => at < bytes.length ? controller.enqueue(next()) : controller.close(),
    });
  }
  return new ReadableStream({
    type,
    pull(controller) {
      if (at < bytes.length) return controller.enqueue(next());
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}

/** What is taken is looked at before the next is. */
async function all(incoming: EnvelopedIncoming<Uint8Array>): Promise<Uint8Array[]> {
  const messages: Uint8Array[] = [];
  for (let taken = await incoming.take(); taken.length > 0; taken = await incoming.take()) {
    messages.push(...taken.map((message) => message.slice()));
  }
  await incoming.close();
  return messages;
}

Deno.test("envelopes: messages of every size arrive whole, however the bytes come in chunks", async () => {
  const sizes = [
    0,
    1,
    16_379,
    16_380,
    0,
    3,
    70_000,
    200_000,
    5,
    2_500_000,
    16_384,
    65_531,
    65_536,
    0,
  ];
  const messages = sizes.map((size, n) => messageOf(n, size));
  const bytes = joinedBytes(messages.map((message) => envelope(message)));
  for (
    const chunks of [[1 << 14], [1 << 20], [7, 1 << 14, 1], [5, 4, 1 << 16], [bytes.length], [
      65_541,
      3,
    ]]
  ) {
    for (const type of ["bytes", undefined] as const) {
      const incoming = new EnvelopedIncoming(
        bodyOf(bytes, chunks, type),
        () => MOST,
        (message) => message,
        NEVER,
      );
      assert.deepEqual(await all(incoming), messages, `in chunks of ${chunks}`);
    }
  }
  const small = joinedBytes([3, 0, 17].map((size, n) => envelope(messageOf(n, size))));
  const incoming = new EnvelopedIncoming(
    bodyOf(small, [1]),
    () => MOST,
    (message) => message,
    NEVER,
  );
  assert.deepEqual((await all(incoming)).map((message) => message.length), [3, 0, 17]);
  const halting = new EnvelopedIncoming(
    bodyOf(small, [0, 4, 0]),
    () => MOST,
    (message) => message,
    NEVER,
  );
  assert.deepEqual((await all(halting)).map((message) => message.length), [3, 0, 17]);
});

Deno.test("envelopes: what is none, is too large or ends too early is refused; nothing at all is no message", async () => {
  const of = (bytes: Uint8Array) =>
    all(new EnvelopedIncoming(bodyOf(bytes, [9]), () => MOST, (message) => message, NEVER));
  await assert.rejects(of(Uint8Array.of(1, 0, 0, 0, 0)), hasCode("invalid_argument", /flags 1/));
  await assert.rejects(
    of(Uint8Array.of(0, 255, 255, 255, 255)),
    hasCode("resource_exhausted", /4294967295 bytes/),
  );
  for (const length of [3, 5, 8, 100_004]) {
    const cut = envelope(messageOf(0, 100_000)).subarray(0, length);
    await assert.rejects(of(cut), hasCode("invalid_argument", /in the middle/));
  }
  assert.deepEqual(await of(new Uint8Array(0)), []);
  const over = new EnvelopedIncoming(
    bodyOf(new Uint8Array(0), [9], "bytes"),
    () => MOST,
    (message) => message,
    NEVER,
  );
  assert.deepEqual([await over.take(), await over.take()], [[], []]);
  assert.deepEqual(
    await all(new EnvelopedIncoming(null, () => MOST, (message) => message, NEVER)),
    [],
  );
});

Deno.test("envelopes: who waits for a message, or for the rest of one, is woken by an interruption", async () => {
  const silent = new MosaicError("aborted", "another proxy is here");
  for (const begun of [0, 20, 100_000]) {
    const { promise: waits, resolve: asked } = Promise.withResolvers<void>();
    const head = envelope(messageOf(0, 200_000)).slice(0, begun);
    let sent = false;
    const body = new ReadableStream({
      type: "bytes",
      pull(controller) {
        if (begun > 0 && !sent) {
          sent = true;
          return controller.enqueue(head);
        }
        asked();
        return new Promise(() => {});
      },
    });
    const incoming = new EnvelopedIncoming(body, () => MOST, (message) => message, NEVER);
    const taken = incoming.take();
    taken.catch(() => {});
    await waits;
    incoming.interrupt(silent);
    await assert.rejects(taken, silent);
    await assert.rejects(incoming.take(), silent);
    await incoming.close();
  }
});

Deno.test("interruption: nothing is kept of what was waited for, however long it may still be interrupted", async () => {
  const interruption = new Interruption();
  const before = Deno.memoryUsage().heapUsed;
  let most = 0;
  for (let i = 0; i < 400; i++) {
    const numbers = await interruption.wait(Promise.resolve(new Array<number>(128 << 10).fill(i)));
    assert.equal(numbers[0], i);
    most = Math.max(most, Deno.memoryUsage().heapUsed - before);
  }
  // All together they are 400 MiB.
  assert.ok(most < 200 << 20, `${most >> 20} MiB`);
  interruption.interrupt(new MosaicError("aborted", "first"));
  interruption.interrupt(new MosaicError("aborted", "second"));
  await assert.rejects(interruption.wait(new Promise(() => {})), hasCode("aborted", /first/));
});

Deno.test("buffers: what is given back is taken again; huge ones and more than a few are let go", () => {
  const pool = new BufferPool();
  const one = pool.take(100_000);
  assert.equal(one.byteLength, 128 << 10);
  pool.give(one);
  assert.notEqual(pool.take(200_000), one);
  assert.equal(pool.take(70_000), one);
  const huge = pool.take(3 << 20);
  pool.give(huge);
  assert.notEqual(pool.take(3 << 20), huge);
  const many = Array.from({ length: 8 }, () => pool.take(1 << 20));
  for (const buffer of many) pool.give(buffer);
  const again = Array.from({ length: 8 }, () => pool.take(1 << 20));
  assert.equal(again.filter((buffer) => many.includes(buffer)).length, 4);
});
