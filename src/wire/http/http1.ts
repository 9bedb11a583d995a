/**
 * HTTP/1.1, as far as calls of a daemon's API need it: one request after the other over a
 * connection. For the commands, which are short: loading the runtime's own client costs each of
 * them 10 ms and 6 MiB.
 */
import { DEFAULT_HTTP } from "../../base/agreed.ts";
import { MosaicError } from "../../base/errors.ts";

export interface Http1Answer {
  status: number;
  /** By lower-case name. */
  headers: Map<string, string>;
  /**
   * A chunk is valid until the next one is requested; what is not requested stays with the sender.
   */
  body: AsyncGenerator<Uint8Array, void>;
}

export interface Http1Request {
  path: string;
  host: string;
  headers: readonly (readonly [name: string, value: string])[];
  body: Uint8Array;
}

const FIRST_BUFFER = 16_384;
const MAX_LINE = 65_536;
const MAX_HEADERS = 200;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Http1Connection {
  readonly #conn: Deno.Conn;
  readonly #reader: Reader;
  #open = true;
  #idle = true;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
    this.#reader = new Reader(conn);
  }

  /** The connection waits for a request: it is open, and the last answer was read to its end. */
  get idle(): boolean {
    return this.#open && this.#idle;
  }

  /**
   * @throws MosaicError `invalid_argument` for headers that cannot be sent, `unavailable` for an
   * answer that is not HTTP;
   *   otherwise the connection's error.
   */
  async post(request: Http1Request): Promise<Http1Answer> {
    const head = headOf(request);
    this.#idle = false;
    let unsent: unknown;
    let whole = false;
    // An answer may arrive, and end the connection, before everything is sent.
    const sending = this.#write(head, request.body).then(
      () => whole = true,
      (error) => unsent = error,
    );
    let status: number;
    let headers: Map<string, string>;
    try {
      do {
        status = statusOf(await this.#reader.line());
        headers = await this.#headers();
      } while (status < 200);
    } catch (error) {
      await Promise.race([sending, Promise.resolve()]);
      throw unsent ?? error;
    }
    const ended = () => {
      if (!whole || headers.get("connection")?.toLowerCase() === "close") return this.close();
      this.#idle = true;
      this.#reader.watch(() => this.close());
    };
    return { status, headers, body: this.#body(status, headers, ended) };
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#conn.close();
  }

  /** In one write if it is small. */
  async #write(head: Uint8Array, body: Uint8Array): Promise<void> {
    if (head.length + body.length <= MAX_LINE) {
      const both = new Uint8Array(head.length + body.length);
      both.set(head);
      both.set(body, head.length);
      return await writeAll(this.#conn, both);
    }
    await writeAll(this.#conn, head);
    await writeAll(this.#conn, body);
  }

  async #headers(): Promise<Map<string, string>> {
    const headers = new Map<string, string>();
    for (let i = 0; i < MAX_HEADERS; i++) {
      const line = await this.#reader.line();
      if (line === "") return headers;
      const colon = line.indexOf(":");
      if (colon <= 0) throw notHttpError(`a header is "${line.slice(0, 80)}"`);
      headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
    }
    throw notHttpError(`an answer has more than ${MAX_HEADERS} headers`);
  }

  async *#body(
    status: number,
    headers: Map<string, string>,
    ended: () => void,
  ): AsyncGenerator<Uint8Array, void> {
    const length = headers.get("content-length");
    if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") {
      for (;;) {
        const size = await this.#reader.line();
        if (!/^[0-9a-f]{1,8}\s*(;|$)/i.test(size)) {
          throw notHttpError(`a chunk's size is "${size.slice(0, 80)}"`);
        }
        const bytes = parseInt(size, 16);
        if (bytes === 0) break;
        yield* this.#reader.bytes(bytes);
        if (await this.#reader.line() !== "") throw notHttpError("a chunk is longer than its size");
      }
      // Trailers after the last chunk are not needed.
      while (await this.#reader.line() !== "");
    } else if (length !== undefined) {
      if (!/^\d{1,15}$/.test(length)) {
        throw notHttpError(`the length of an answer is "${length.slice(0, 80)}"`);
      }
      yield* this.#reader.bytes(Number(length));
    } else if (status !== 204 && status !== 304) {
      yield* this.#reader.rest();
      return this.close();
    }
    ended();
  }
}

/** Reads a connection as lines and as bytes. */
class Reader {
  readonly #conn: Deno.Conn;
  #buffer = new Uint8Array(FIRST_BUFFER);
  #from = 0;
  #to = 0;
  /** A read that was begun while nothing was expected. */
  #ahead: Promise<number | null> | undefined;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** Calls `ended` if, while nothing is expected, the other end closes or sends something. */
  watch(ended: () => void): void {
    if (this.#from < this.#to) return ended();
    this.#from = this.#to = 0;
    const ahead = this.#ahead = this.#conn.read(this.#buffer);
    ahead.then(() => this.#ahead === ahead && ended(), () => this.#ahead === ahead && ended());
  }

  /**
   * Without its line ending. @throws `Deno.errors.UnexpectedEof` if the connection ends before the
   * line does
   */
  async line(): Promise<string> {
    for (let searched = 0;;) {
      const end = this.#buffer.subarray(0, this.#to).indexOf(10, this.#from + searched);
      if (end !== -1) {
        const text = decoder.decode(this.#buffer.subarray(this.#from, end));
        this.#from = end + 1;
        return text.endsWith("\r") ? text.slice(0, -1) : text;
      }
      searched = this.#to - this.#from;
      if (searched >= MAX_LINE) throw notHttpError("a line has no end");
      if (!await this.#more()) throw new Deno.errors.UnexpectedEof("the connection has ended");
    }
  }

  async *bytes(length: number): AsyncGenerator<Uint8Array, void> {
    for (let left = length; left > 0;) {
      if (this.#from === this.#to && !await this.#more()) {
        throw new Deno.errors.UnexpectedEof("the connection has ended within an answer");
      }
      const piece = this.#buffer.subarray(this.#from, Math.min(this.#to, this.#from + left));
      this.#from += piece.length;
      left -= piece.length;
      yield piece;
    }
  }

  async *rest(): AsyncGenerator<Uint8Array, void> {
    while (this.#from < this.#to || await this.#more()) {
      const piece = this.#buffer.subarray(this.#from, this.#to);
      this.#from = this.#to;
      yield piece;
    }
  }

  async #more(): Promise<boolean> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead === undefined) this.#reserve();
    const count = await (ahead ?? this.#conn.read(this.#buffer.subarray(this.#to)));
    if (count === null) return false;
    this.#to += count;
    return true;
  }

  #reserve(): void {
    if (this.#from > 0) {
      this.#buffer.copyWithin(0, this.#from, this.#to);
      this.#to -= this.#from;
      this.#from = 0;
    }
    if (this.#to < this.#buffer.length) return;
    const larger = new Uint8Array(2 * this.#buffer.length);
    larger.set(this.#buffer);
    this.#buffer = larger;
  }
}

function headOf({ path, host, headers, body }: Http1Request): Uint8Array {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${body.length}\r\n`;
  for (const [name, value] of headers) {
    // The value may be a token, so it is not shown.
    if (!/^[\x20-\x7e]*$/.test(value)) {
      throw new MosaicError(
        "invalid_argument",
        `the header ${name} has characters that no header may have`,
      );
    }
    head += `${name}: ${value}\r\n`;
  }
  return encoder.encode(`${head}\r\n`);
}

function statusOf(line: string): number {
  const status = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(line)?.[1];
  if (status === undefined) {
    throw notHttpError(`it begins with ${JSON.stringify(line.slice(0, 40))}`);
  }
  return Number(status);
}

export async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

function notHttpError(what: string): MosaicError {
  return new MosaicError(
    "unavailable",
    `the server is not a daemon's API: it does not speak HTTP/1.1 (${what})`,
    {
      hint:
        `The API is at the address of --http (${DEFAULT_HTTP} by default) and at the daemon's own Unix socket.`,
    },
  );
}
