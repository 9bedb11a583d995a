import assert from "node:assert/strict";
import { encodeHeaders, type Header, statusIn } from "../../src/wire/http/hpack.ts";
import { MosaicError } from "../../src/base/errors.ts";

const bytes = (hex: string) =>
  Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const text = (value: string) => [value.length, ...new TextEncoder().encode(value)];

/** Headers as this end writes them: each with its name, and never to be kept. */
function read(block: Uint8Array): string[][] {
  const headers: string[][] = [];
  let at = 0;
  const taken = () => {
    let length = block[at++]!;
    if (length === 0x7f) {
      for (let shift = 0, more = true; more; shift += 7) {
        more = block[at]! >= 0x80;
        length += (block[at++]! & 0x7f) << shift;
      }
    }
    at += length;
    return new TextDecoder().decode(block.subarray(at - length, at));
  };
  while (at < block.length) {
    assert([0x00, 0x10].includes(block[at++]!));
    headers.push([taken(), taken()]);
  }
  return headers;
}

Deno.test("hpack: headers are written as they are, short and long", () => {
  const headers: Header[] = [
    [":method", "POST"],
    ["authorization", "Bearer x", "secret"],
    ["empty", ""],
    ...[126, 127, 128, 254, 255, 256, 5000].map((
      length,
    ): Header => [`l${length}`, "v".repeat(length)]),
  ];
  const block = encodeHeaders(headers);
  assert.deepEqual(read(block), headers.map(([name, value]) => [name, value]));
  assert(block.includes(0x10), "a secret is not to be kept by anybody");
  for (const value of ["a\nb", "ä", "\0"]) {
    assert.throws(() => encodeHeaders([["n", value]]), /no header may have/);
  }
});

Deno.test("hpack: the status is read in every form that RFC 7541 has for it", () => {
  const forms: [string, number][] = [
    // A number alone, after tables were made empty, with more headers behind.
    ["88", 200],
    ["8d", 404],
    ["8e", 500],
    ["2088", 200],
    ["202088", 200],
    ["88400a637573746f6d2d6b65790d637573746f6d2d686561646572", 200],
    // C.6.1: the name's number and Huffman's code, kept, not kept, and never kept.
    ["488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff", 302],
    ["08826402", 302],
    ["18826402", 302],
    ["0803343031", 401],
    // By its name.
    ["00073a73746174757303353033", 503],
  ];
  for (const [hex, expected] of forms) assert.equal(statusIn(bytes(hex)), expected, hex);
  // As hyper writes the statuses that have no number of their own.
  const coded = (status: string) => {
    const bits = [...status].map((digit) => {
      const value = Number(digit);
      return value <= 2
        ? value.toString(2).padStart(5, "0")
        : (0x19 + value - 3).toString(2).padStart(6, "0");
    }).join("");
    const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
    const value = padded.match(/.{8}/g)!.map((byte) => parseInt(byte, 2));
    return Uint8Array.of(0x08, 0x80 | value.length, ...value);
  };
  for (let status = 100; status < 1000; status++) {
    assert.equal(statusIn(coded(String(status))), status);
  }
});

Deno.test("hpack: what cannot be read is refused, wherever it is cut", () => {
  const refused = (block: Iterable<number>, what: RegExp) =>
    assert.throws(() => statusIn(Uint8Array.from(block)), (error) => {
      assert(error instanceof MosaicError && error.code === "internal");
      assert.match(error.message, what);
      return true;
    });
  refused([0x80], /do not begin with a status/);
  refused([0x87], /do not begin with a status/);
  refused([0x8f], /do not begin with a status/);
  refused([0x3f, 0xe1, 0x1f], /a table of 4096 bytes/);
  refused([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], /too large/);
  refused([0x00, ...text("n"), 0x84, 0xff, 0xff, 0xff, 0xff], /do not begin with a status/);
  refused([0x08, 0x82, 0xff, 0xff], /something else than digits/);
  refused([0x08, ...text("20")], /no number/);
  const whole = bytes("48826402");
  for (let at = 1; at < whole.length; at++) refused(whole.subarray(0, at), /too early/);
});
