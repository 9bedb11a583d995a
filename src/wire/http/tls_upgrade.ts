/**
 * TLS for accepted TCP connections. The runtime's own TLS listener keeps the descriptor of a
 * connection as long as its peer makes no handshake, even after closing it. So Node's TLS makes the
 * handshake here, with a time limit, and passes the decrypted bytes through a Unix socket of this
 * process to the runtime's HTTP server, which serves only its own kinds of connections.
 */
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import {
  listenSocket,
  type Pair,
  removeSocket,
  type TlsEnd,
  type Waiting,
} from "./http_listener.ts";

const NONCE_BYTES = 16;
const CHUNK_BYTES = 64 << 10;
/** Time for a peer to read the last bytes. */
const STUCK_MS = 30_000;

export interface TlsBounds extends Pick<Waiting, "headMs" | "most"> {
  /** Connections at one time; a further one is closed. */
  open: number;
}

/**
 * While at least this share of the connections is open, closing further ones is reported only once.
 */
const STILL_FULL = 0.9;

export class TlsUpgrade implements TlsEnd {
  readonly #bounds: TlsBounds;
  readonly #inner: Deno.Listener;
  readonly #path: string;
  #context: SecureContext;
  /** Handshakes in progress, the oldest first. */
  readonly #handshakes = new Set<Duplex>();
  /** Connections whose descriptor is not free again. */
  #open = 0;
  #full = false;
  readonly #onFull: () => void;
  /** Waits for the other end of a connection to the inner socket, by nonce. */
  readonly #expected = new Map<string, (connection: Deno.Conn) => void>();

  /**
   * @param pair checked by `readTls`
   * @param path of the inner socket, which is created again
   * @param bounds of the time of a handshake, and of handshakes at once: a further one replaces the
   * oldest
   * @param onFull called for the first of the connections that are closed because too many are open
   */
  constructor(pair: Pair, path: string, bounds: TlsBounds, onFull = () => {}) {
    this.#bounds = bounds;
    this.#onFull = onFull;
    this.#path = path;
    this.#context = contextOf(pair);
    this.#inner = listenSocket({ path });
    this.#acceptInner();
  }

  renew(pair: Pair): void {
    this.#context = contextOf(pair);
  }

  async accept(socket: Deno.TcpConn): Promise<Deno.Conn | undefined> {
    if (this.#open >= this.#bounds.open) {
      socket.close();
      if (!this.#full) this.#onFull();
      this.#full = true;
      return undefined;
    }
    this.#open++;
    const raw = new RawStream(socket, () => {
      if (--this.#open < STILL_FULL * this.#bounds.open) this.#full = false;
    });
    const secure = new TLSSocket(raw as never, {
      isServer: true,
      secureContext: this.#context,
      ALPNProtocols: ["h2", "http/1.1"],
    });
    secure.on("error", () => raw.destroy());
    raw.on("error", () => secure.destroy());
    secure.on("close", () => raw.destroy());
    if (!await this.#handshake(secure, raw)) return undefined;
    try {
      const [near, far] = await this.#pair();
      relay(secure, near);
      return far;
    } catch (error) {
      secure.destroy();
      throw error;
    }
  }

  close(): void {
    this.#inner.close();
    for (const raw of this.#handshakes) raw.destroy();
    removeSocket(this.#path);
  }

  #handshake(secure: TLSSocket, raw: Duplex): Promise<boolean> {
    this.#handshakes.add(raw);
    if (this.#handshakes.size > this.#bounds.most) {
      const [oldest] = this.#handshakes;
      // Removed here and not by its "close" event: several connections may be accepted before that.
      this.#handshakes.delete(oldest!);
      oldest!.destroy();
    }
    return new Promise((resolve) => {
      const over = (done: boolean) => {
        clearTimeout(timer);
        this.#handshakes.delete(raw);
        resolve(done);
      };
      const timer = setTimeout(() => raw.destroy(), this.#bounds.headMs);
      secure.once("secure", () => over(true));
      raw.once("close", () => {
        secure.destroy();
        over(false);
      });
    });
  }

  /**
   * Both ends of a connection through the inner socket. Another process of this user may connect to
   * it, too; such a connection is refused.
   */
  async #pair(): Promise<[near: Deno.Conn, far: Deno.Conn]> {
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
    const id = nonce.toHex();
    const far = Promise.withResolvers<Deno.Conn>();
    const near = await Deno.connect({ transport: "unix", path: this.#path });
    this.#expected.set(id, far.resolve);
    try {
      await writeAll(near, nonce);
      return [near, await far.promise];
    } catch (error) {
      this.#expected.delete(id);
      near.close();
      throw error;
    }
  }

  async #acceptInner(): Promise<void> {
    for await (const connection of this.#inner) this.#arrived(connection);
  }

  async #arrived(connection: Deno.Conn): Promise<void> {
    const nonce = new Uint8Array(NONCE_BYTES);
    let read = 0;
    while (read < NONCE_BYTES) {
      const got = await connection.read(nonce.subarray(read)).catch(() => null);
      if (got === null) break;
      read += got;
    }
    const id = nonce.toHex();
    const expected = this.#expected.get(id);
    this.#expected.delete(id);
    if (expected === undefined) connection.close();
    else expected(connection);
  }
}

/** Without an authority: `--tls-ca` requires certificates of gRPC clients only. */
function contextOf({ cert, key }: Pair): SecureContext {
  return createSecureContext({ cert, key });
}

/**
 * An accepted connection as the stream that Node's TLS needs. The runtime keeps a closed
 * connection's descriptor while a write is in progress, that is, while its peer reads nothing. Such
 * a connection cannot be ended; only their number can be bounded.
 */
class RawStream extends Duplex {
  readonly #socket: Deno.TcpConn;
  readonly #onReleased: () => void;
  readonly #buffer = new Uint8Array(CHUNK_BYTES);
  #writing: Promise<void> = Promise.resolve();

  /** @param onReleased called when it holds no descriptor any more */
  constructor(socket: Deno.TcpConn, onReleased: () => void) {
    super();
    this.#socket = socket;
    this.#onReleased = onReleased;
  }

  override _read(): void {
    this.#socket.read(this.#buffer).then(
      (read) => this.push(read === null ? null : Buffer.from(this.#buffer.subarray(0, read))),
      (error) => this.destroy(error),
    );
  }

  override _write(
    bytes: Uint8Array,
    _encoding: string,
    done: (error?: Error | null) => void,
  ): void {
    this.#writing = writeAll(this.#socket, bytes);
    this.#writing.then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.close();
    this.#writing.then(this.#onReleased, this.#onReleased);
    done(error);
  }
}

/** Until either side ends. Data that the near side sent before its end still goes to the peer. */
function relay(secure: TLSSocket, near: Deno.Conn): void {
  secure.on("close", () => near.close());
  secure.on("end", () => void near.closeWrite().catch(() => {}));
  secure.on("data", (bytes: Uint8Array) => {
    secure.pause();
    // The near side accepts no more when it has ended; its end is passed on below.
    writeAll(near, bytes).then(() => secure.resume(), () => {});
  });
  forward(near, secure).finally(() => {
    const stuck = setTimeout(() => secure.destroy(), STUCK_MS);
    secure.on("close", () => clearTimeout(stuck));
    secure.end(() => secure.destroy());
  });
}

async function forward(near: Deno.Conn, secure: TLSSocket): Promise<void> {
  let proceed = () => {};
  for (const event of ["drain", "close"]) secure.on(event, () => proceed());
  const buffer = new Uint8Array(CHUNK_BYTES);
  while (!secure.destroyed) {
    // An error counts as the end: the server has reset the connection.
    const read = await near.read(buffer).catch(() => null);
    if (read === null) return;
    const taken = Promise.withResolvers<void>();
    proceed = taken.resolve;
    if (!secure.write(Buffer.from(buffer.subarray(0, read)))) await taken.promise;
  }
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += await connection.write(bytes.subarray(written));
  }
}
