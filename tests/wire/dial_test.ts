/** Connections that cannot be made, and waits that combine signals, leave nothing behind. */
import assert from "node:assert/strict";
import { dial } from "../../src/wire/address/dial.ts";
import { anyOf } from "../../src/wire/http/waiting.ts";

Deno.test("dial: when TLS cannot begin, the TCP connection is closed", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const accepted = listener.accept();
  // No certificate can have this name, so the runtime refuses before it says a word.
  const options = { target: `https://127.0.0.1:${port}`, serverName: "no name", token: "t" };
  await assert.rejects(dial(options, "h2", new AbortController().signal));
  using peer = await accepted;
  assert.equal(await peer.read(new Uint8Array(1)), null);
});

Deno.test("anyOf: aborts with the first, and leaves nothing at those that live on", () => {
  const long = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = long.signal;
  long.signal.addEventListener = (...args: unknown[]) => {
    listeners++;
    addEventListener.apply(long.signal, args as Parameters<typeof addEventListener>);
  };
  long.signal.removeEventListener = (...args: unknown[]) => {
    listeners--;
    removeEventListener.apply(long.signal, args as Parameters<typeof removeEventListener>);
  };
  for (let i = 0; i < 10; i++) {
    const short = new AbortController();
    using either = anyOf(long.signal, short.signal);
    assert.equal(either.signal.aborted, false);
    short.abort("short");
    assert.equal(either.signal.reason, "short");
  }
  assert.equal(listeners, 0);
  long.abort("long");
  using late = anyOf(new AbortController().signal, long.signal);
  assert.equal(late.signal.reason, "long");
});
