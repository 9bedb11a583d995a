/** Messages in one stream, however their bytes come. */
import assert from "node:assert/strict";
import { sized, sizedMessages } from "../../src/ui/http/sized_messages.ts";

async function received(bytes: Uint8Array<ArrayBuffer>, chunk: number): Promise<number[][]> {
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < bytes.length; at += chunk) {
        controller.enqueue(bytes.subarray(at, at + chunk));
      }
      controller.close();
    },
  });
  const found: number[][] = [];
  for await (const message of sizedMessages(stream)) found.push([...message]);
  return found;
}

Deno.test("sized messages: the same in chunks of any size; one that is cut short is left out", async () => {
  const messages = [[1, 2, 3], [], [4], Array.from({ length: 300 }, (_, i) => i % 256)];
  const bytes = new Uint8Array(messages.flatMap((m) => [...sized(new Uint8Array(m))]));
  for (const chunk of [1, 2, 3, 5, 7, 64, bytes.length]) {
    assert.deepEqual(await received(bytes, chunk), messages, `chunks of ${chunk}`);
    assert.deepEqual(
      await received(bytes.slice(0, -1), chunk),
      messages.slice(0, -1),
      `cut, chunks of ${chunk}`,
    );
  }
});

Deno.test("sized messages: who stops reading ends the stream", async () => {
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(sized(new Uint8Array([1]))),
    cancel: () => void (cancelled = true),
  });
  for await (const message of sizedMessages(stream)) {
    assert.deepEqual([...message], [1]);
    break;
  }
  assert.ok(cancelled);
});
