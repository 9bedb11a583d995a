/**
 * HPACK (RFC 7541), as far as one call needs it: headers are written as literals, and read from an
 * encoder that was asked to use no dynamic table.
 */
import { MosaicError } from "../../base/errors.ts";

/** `secret`: no hop may index the value, such as a token. */
export type Header = [name: string, value: string, secret?: "secret"];

/** @throws MosaicError `invalid_argument` for a value that is not allowed in a header. */
export function encodeHeaders(headers: readonly Header[]): Uint8Array {
  const bytes: number[] = [];
  for (const [name, value, secret] of headers) {
    if (!/^[\x20-\x7e]*$/.test(value)) {
      const shown = secret === undefined ? ` "${value}"` : "";
      throw new MosaicError(
        "invalid_argument",
        `the header ${name}${shown} has characters that no header may have`,
      );
    }
    bytes.push(secret === undefined ? 0x00 : 0x10);
    text(bytes, name);
    text(bytes, value);
  }
  return Uint8Array.from(bytes);
}

function text(bytes: number[], value: string): void {
  if (value.length < 0x7f) {
    bytes.push(value.length);
  } else {
    bytes.push(0x7f);
    let rest = value.length - 0x7f;
    for (; rest > 0x7f; rest >>>= 7) bytes.push(rest & 0x7f | 0x80);
    bytes.push(rest);
  }
  for (let i = 0; i < value.length; i++) bytes.push(value.charCodeAt(i));
}

/** Values of `:status` in the static table, from index 8 on. */
const STATUSES = [200, 204, 206, 304, 400, 404, 500];
const FIRST_STATUS = 8;
const LAST_STATUS = FIRST_STATUS + STATUSES.length - 1;

/** The answer's status, the first of its headers. @throws MosaicError `internal` if it is not. */
export function statusIn(block: Uint8Array): number {
  const reader = new Reader(block);
  // A table of size 0, as requested.
  while ((reader.peek() & 0xe0) === 0x20) {
    const size = reader.integer(5);
    if (size !== 0) throw broken(`a table of ${size} bytes was not granted`);
  }
  const first = reader.peek();
  const number = reader.integer(first >= 0x80 ? 7 : first >= 0x40 ? 6 : 4);
  if (
    number === 0 && first < 0x80
      ? reader.text() !== ":status"
      : number < FIRST_STATUS || number > LAST_STATUS
  ) {
    throw broken("they do not begin with a status");
  }
  if (first >= 0x80) return STATUSES[number - FIRST_STATUS]!;
  const status = reader.text();
  if (!/^\d{3}$/.test(status)) throw broken("the status is no number");
  return Number(status);
}

class Reader {
  readonly #block: Uint8Array;
  #at = 0;

  constructor(block: Uint8Array) {
    this.#block = block;
  }

  peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw broken("it ends too early");
    return byte;
  }

  integer(prefixBits: number): number {
    const most = (1 << prefixBits) - 1;
    let value = this.#byte() & most;
    if (value < most) return value;
    for (let shift = 0;; shift += 7) {
      if (shift > 21) throw broken("a number is too large");
      const byte = this.#byte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  text(): string {
    const packed = this.peek() >= 0x80;
    const length = this.integer(7);
    const end = this.#at + length;
    if (end > this.#block.length) throw broken("it ends too early");
    const bytes = this.#block.subarray(this.#at, end);
    this.#at = end;
    return packed ? unpacked(bytes) : String.fromCharCode(...bytes);
  }

  #byte(): number {
    const byte = this.peek();
    this.#at++;
    return byte;
  }
}

function broken(what: string): MosaicError {
  return new MosaicError("internal", `the daemon's headers cannot be read: ${what}`);
}

/**
 * HPACK's Huffman code (RFC 7541, appendix B) for digits, which are all that a status has: 0 to 2
 * in 5 bits, 3 to 9 in 6.
 */
function unpacked(bytes: Uint8Array): string {
  let bits = "";
  for (const byte of bytes) bits += byte.toString(2).padStart(8, "0");
  let text = "";
  let at = 0;
  while (bits.length - at >= 8 || (bits.length - at >= 5 && bits.slice(at).includes("0"))) {
    const five = parseInt(bits.slice(at, at + 5), 2);
    const six = parseInt(bits.slice(at, at + 6), 2);
    if (five > 2 && (six < 0x19 || six > 0x1f)) {
      throw broken("a status has something else than digits");
    }
    text += String(five <= 2 ? five : six - 0x19 + 3);
    at += five <= 2 ? 5 : 6;
  }
  return text;
}
