/** A streamed answer whose client leaves at the worst moment, against the runtime's own server. */
import { strict as assert } from "node:assert";
import { AnswerBody } from "../../src/rpc/connect/body.ts";
import { MosaicError } from "../../src/base/errors.ts";

const REQUEST = new TextEncoder().encode("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
const BYTES = new Uint8Array(64);

Deno.test("answer: a client that left before the server knows ends it in peace, at the end as at a write", async () => {
  const bodies: AnswerBody[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    const body = new AnswerBody(() => {}, 60_000);
    bodies.push(body);
    body.write(BYTES);
    return new Response(body.stream);
  });
  const { port } = server.addr;
  for (let i = 0; i < 40; i++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(REQUEST);
    await connection.read(new Uint8Array(1024));
    connection.close();
    const body = bodies[i]!;
    // The kernel of the other side answers the first write behind the close with a reset.
    for (let n = 0; n < i % 4; n++) {
      try {
        body.write(BYTES);
      } catch (error) {
        assert.equal((error as MosaicError).code, "aborted");
      }
      await new Promise((resolve) => setTimeout(resolve));
    }
    body.end(BYTES);
  }
});
