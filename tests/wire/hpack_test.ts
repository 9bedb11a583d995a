import assert from "node:assert/strict";
import { decodeHeaders, encodeHeaders, type Header } from "../../src/wire/hpack.ts";
import { MosaicError } from "../../src/base/errors.ts";

const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const text = (value: string) => [value.length, ...new TextEncoder().encode(value)];

Deno.test("hpack: what is written is read again, short and long", () => {
  const headers: Header[] = [
    [":method", "POST"],
    ["authorization", "Bearer x", "secret"],
    ["empty", ""],
    ...[126, 127, 128, 254, 255, 256, 5000].map((length): Header => [`l${length}`, "v".repeat(length)]),
  ];
  const block = encodeHeaders(headers);
  assert.deepEqual([...decodeHeaders(block)], headers.map(([name, value]) => [name, value]));
  assert(block.includes(0x10), "a secret is not to be kept by anybody");
  for (const value of ["a\nb", "ä", "\0"]) assert.throws(() => encodeHeaders([["n", value]]), /no header may have/);
});

Deno.test("hpack: forms of RFC 7541", () => {
  // C.2: with a name that is new, with one that has a number, never kept, a number alone.
  const forms: [string, Record<string, string>][] = [
    ["400a637573746f6d2d6b65790d637573746f6d2d686561646572", { "custom-key": "custom-header" }],
    ["040c2f73616d706c652f70617468", {}],
    ["100870617373776f726406736563726574", { password: "secret" }],
    ["82", {}],
    ["88", { ":status": "200" }],
    ["8d", { ":status": "404" }],
    ["20", {}],
    // C.4.3 and C.6.1: Huffman's code.
    ["408825a849e95ba97d7f8925a849e95bb8e8b4bf", { "custom-key": "custom-value" }],
    ["488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff", { ":status": "302" }],
  ];
  for (const [hex, expected] of forms) assert.deepEqual(Object.fromEntries(decodeHeaders(bytes(hex))), expected, hex);
});

Deno.test("hpack: what cannot be read is refused, wherever it is cut", () => {
  const refused = (block: Iterable<number>, what: RegExp) =>
    assert.throws(() => decodeHeaders(Uint8Array.from(block)), (error) => {
      assert(error instanceof MosaicError && error.code === "internal");
      assert.match(error.message, what);
      return true;
    });
  refused([0x80], /no header number 0/);
  refused([0xbe], /no header number 62/);
  refused([0x7f, 0x00], /no header number 63/);
  refused([0x3f, 0xe1, 0x1f], /a table of 4096 bytes/);
  refused([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], /too large/);
  refused([0x00, ...text("n"), 0x84, 0xff, 0xff, 0xff, 0xff], /no meaning|end in its middle/);
  refused([0x00, ...text("n"), 0x81, 0x00], /middle of a character/);
  const whole = bytes("408825a849e95ba97d7f8925a849e95bb8e8b4bf");
  for (let at = 1; at < whole.length; at++) refused(whole.subarray(0, at), /too early/);
});
