/** One call over a connection of its own. Data waits only for the other end's window. */
import { anyOf } from "./waiting.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { joinedBytes } from "../../base/text/joined_bytes.ts";
import { encodeHeaders, type Header, statusIn } from "./hpack.ts";
import { writeAll } from "./http1.ts";
import {
  FIRST_WINDOW,
  FLAG,
  FRAME,
  type Frame,
  frameOf,
  framesOf,
  HEADER_BYTES,
  INITIAL_WINDOW_SETTING,
  MAX_FRAME_BYTES,
  numberIn,
  OWN_SETTINGS,
  PREFACE,
  settings,
  settingsOf,
  windowUpdate,
  writeFrameHeader,
} from "./http2.ts";

/** The only stream of the connection. */
const STREAM = 1;
const MAX_HEADER_BYTES = 1 << 16;
/** The window is enlarged after this many bytes have arrived. */
const GRANT_BYTES = FIRST_WINDOW >> 1;

/** When a silent connection is pinged, and how long the answer may take. */
export interface KeepAlive {
  afterMs: number;
  withinMs: number;
  /** How long connecting may take; undefined: as long as the system tries. */
  connectMs?: number;
}

/** A relay or a tunnel may stop delivering without notice. */
const KEEP_ALIVE: KeepAlive = { afterMs: 30_000, withinMs: 10_000 };

export interface Http2CallOptions {
  dial: (signal: AbortSignal) => Promise<Deno.Conn>;
  headers: readonly Header[];
  keepAlive?: KeepAlive;
}

/** The caller must read its `answer`: reading drives the call. */
export class Http2Call {
  readonly #keepAlive: KeepAlive;
  readonly #cancelled = new AbortController();
  readonly #connection: Promise<Deno.Conn>;
  #conn: Deno.Conn | undefined;
  /** Frames that need no window; they are sent first. */
  #frames: Uint8Array[] = [];
  #data: Uint8Array[] = [];
  /** Bytes of the first of `#data` that are sent. */
  #sent = 0;
  /** The sender has ended; `#endSent`: END_STREAM has been sent. */
  #ended = false;
  #endSent = false;
  #writing = false;
  #writeError: unknown;
  /** Allocated once there is a connection: while a daemon is away, many calls fail without one. */
  #outgoing = new Uint8Array();
  #connectionWindow = FIRST_WINDOW;
  #streamWindow = FIRST_WINDOW;
  /**
   * The stream's initial window as set by the other end, which may arrive late and applies from the
   * beginning.
   */
  #firstWindow = FIRST_WINDOW;
  #notGranted = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silent: MosaicError | undefined;
  #status = 0;

  /** @throws MosaicError `invalid_argument` for headers that cannot be sent. */
  constructor({ dial, headers, keepAlive = KEEP_ALIVE }: Http2CallOptions) {
    this.#keepAlive = keepAlive;
    const block = encodeHeaders(headers);
    if (block.length > MAX_FRAME_BYTES) {
      throw new MosaicError(
        "invalid_argument",
        `the headers of a call have ${block.length} bytes: is the token one?`,
      );
    }
    this.#frames.push(
      PREFACE,
      settings(OWN_SETTINGS),
      frameOf(FRAME.headers, FLAG.endHeaders, STREAM, block),
    );
    this.#connection = this.#connect(dial);
    // answer() rethrows this error; avoid an unhandled rejection if it is never called.
    this.#connection.catch(() => {});
  }

  /** A connection was made, whether or not it still exists. */
  get connected(): boolean {
    return this.#outgoing.length > 0;
  }

  /** HTTP status of the answer; 0 before it has arrived. */
  get status(): number {
    return this.#status;
  }

  get cancelled(): boolean {
    return this.#cancelled.signal.aborted;
  }

  send(bytes: Uint8Array): void {
    if (bytes.length === 0 || this.cancelled) return;
    this.#data.push(bytes);
    this.#write();
  }

  /** Nothing more will be sent. */
  end(): void {
    this.#ended = true;
    this.#write();
  }

  /** Ends the connection. */
  cancel(): void {
    if (this.cancelled) return;
    this.#cancelled.abort();
    this.#hangUp();
  }

  #hangUp(): void {
    clearTimeout(this.#timer);
    this.#conn?.close();
    this.#conn = undefined;
  }

  /**
   * The other end can be heard only during a read: while the reader pauses, silence does not count.
   */
  async #listen(read: Promise<number | null>): Promise<number | null> {
    if (this.#conn !== undefined) {
      this.#timer = setTimeout(() => this.#ping(), this.#keepAlive.afterMs);
    }
    try {
      return await read;
    } finally {
      clearTimeout(this.#timer);
    }
  }

  #ping(): void {
    const { afterMs, withinMs } = this.#keepAlive;
    this.#frames.push(frameOf(FRAME.ping, 0, 0, new Uint8Array(8)));
    this.#write();
    this.#timer = setTimeout(() => {
      this.#silent = unavailable(
        `nothing was received over the connection for ${(afterMs + withinMs) / 1000} s`,
      );
      this.#hangUp();
    }, withinMs);
  }

  /**
   * The answer's bytes as they arrive; after it the connection is closed. @throws the error that
   * broke the connection.
   */
  async *answer(): AsyncGenerator<Uint8Array, void> {
    try {
      yield* this.#answer(await this.#connection);
    } finally {
      // The other end may wait for the close.
      this.#hangUp();
    }
  }

  async *#answer(conn: Deno.Conn): AsyncGenerator<Uint8Array, void> {
    let block: Uint8Array = new Uint8Array();
    let last = false;
    for await (const frame of framesOf(this.#read(conn))) {
      switch (frame.type) {
        case FRAME.data:
          this.#grant(frame.length);
          if (frame.payload.length > 0) yield frame.payload;
          if ((frame.flags & FLAG.endStream) !== 0) return;
          break;
        case FRAME.headers:
          last = (frame.flags & FLAG.endStream) !== 0;
          block = new Uint8Array();
          // falls through: what did not fit into the frame comes in frames of continuation
        case FRAME.continuation:
          block = joinedBytes([block, frame.payload]);
          if (block.length > MAX_HEADER_BYTES) {
            throw unavailable("the daemon's headers have no end");
          }
          if ((frame.flags & FLAG.endHeaders) === 0) break;
          // Trailers come after the status and are not needed.
          this.#status ||= statusIn(block);
          // An informational answer before the real one.
          if (this.#status < 200) this.#status = 0;
          if (last) return;
          break;
        default:
          this.#heed(frame);
      }
    }
    throw unavailable(
      `the connection has ended${this.#writeError ? `: ${messageOf(this.#writeError)}` : ""}`,
    );
  }

  #heed({ type, flags, stream, payload }: Frame): void {
    switch (type) {
      case FRAME.settings:
        if ((flags & FLAG.ack) !== 0) return;
        for (const [setting, value] of settingsOf(payload)) {
          if (setting !== INITIAL_WINDOW_SETTING) continue;
          this.#streamWindow += value - this.#firstWindow;
          this.#firstWindow = value;
        }
        this.#frames.push(frameOf(FRAME.settings, FLAG.ack, 0, new Uint8Array()));
        break;
      case FRAME.ping:
        if ((flags & FLAG.ack) !== 0) return;
        this.#frames.push(frameOf(FRAME.ping, FLAG.ack, 0, payload));
        break;
      case FRAME.windowUpdate:
        if (stream === 0) this.#connectionWindow += numberIn(payload, 0);
        else this.#streamWindow += numberIn(payload, 0);
        break;
      case FRAME.resetStream:
        throw unavailable(
          `the daemon has broken off the stream (HTTP/2 code ${numberIn(payload, 0)})`,
        );
      case FRAME.goAway:
        // A peer that has accepted this call will end it properly.
        if ((numberIn(payload, 0) & 0x7fff_ffff) < STREAM || numberIn(payload, 1) !== 0) {
          throw unavailable(
            `the daemon has broken off the connection (HTTP/2 code ${numberIn(payload, 1)})`,
          );
        }
        return;
      default:
        // Frames of unknown types must be ignored.
        return;
    }
    this.#write();
  }

  async #connect(dial: (signal: AbortSignal) => Promise<Deno.Conn>): Promise<Deno.Conn> {
    const conn = await this.#dial(dial);
    if (this.cancelled) {
      conn.close();
    } else {
      this.#conn = conn;
      this.#outgoing = new Uint8Array(FIRST_WINDOW + 4 * HEADER_BYTES);
      this.#write();
    }
    return conn;
  }

  async #dial(dial: (signal: AbortSignal) => Promise<Deno.Conn>): Promise<Deno.Conn> {
    const { connectMs } = this.#keepAlive;
    if (connectMs === undefined) return await dial(this.#cancelled.signal);
    const late = new AbortController();
    const error = unavailable(`no connection within ${connectMs / 1000} s`);
    const timer = setTimeout(() => late.abort(error), connectMs);
    using either = anyOf(this.#cancelled.signal, late.signal);
    try {
      return await dial(either.signal);
    } catch (thrown) {
      throw late.signal.aborted ? error : thrown;
    } finally {
      clearTimeout(timer);
    }
  }

  async *#read(conn: Deno.Conn): AsyncGenerator<Uint8Array, void> {
    const buffer = new Uint8Array(MAX_FRAME_BYTES);
    try {
      for (let length; (length = await this.#listen(conn.read(buffer))) !== null;) {
        yield buffer.subarray(0, length);
      }
    } catch (error) {
      throw this.#silent ?? error;
    }
  }

  #grant(length: number): void {
    this.#notGranted += length;
    if (this.#notGranted < GRANT_BYTES) return;
    this.#frames.push(windowUpdate(0, this.#notGranted), windowUpdate(STREAM, this.#notGranted));
    this.#notGranted = 0;
    this.#write();
  }

  async #write(): Promise<void> {
    const conn = this.#conn;
    if (this.#writing || conn === undefined) return;
    this.#writing = true;
    try {
      for (let bytes; !this.cancelled && (bytes = this.#next()).length > 0;) {
        await writeAll(conn, bytes);
      }
    } catch (error) {
      // The connection is broken: the reader sees its end, after what the daemon may have sent
      // before.
      this.#writeError = error;
      return;
    }
    this.#writing = false;
  }

  /** The bytes that may be written now. */
  #next(): Uint8Array {
    const out = this.#outgoing;
    let at = 0;
    for (let frame; (frame = this.#frames[0]) !== undefined && at + frame.length <= out.length;) {
      out.set(frame, at);
      at += frame.length;
      this.#frames.shift();
    }
    while (this.#data.length > 0) {
      const capacity = Math.min(
        MAX_FRAME_BYTES,
        this.#connectionWindow,
        this.#streamWindow,
        out.length - at - HEADER_BYTES,
      );
      if (capacity <= 0) break;
      const length = this.#fill(out.subarray(at + HEADER_BYTES, at + HEADER_BYTES + capacity));
      writeFrameHeader(out, at, { length, type: FRAME.data, flags: 0, stream: STREAM });
      this.#connectionWindow -= length;
      this.#streamWindow -= length;
      at += HEADER_BYTES + length;
    }
    if (
      this.#ended && !this.#endSent && this.#data.length === 0 && at + HEADER_BYTES <= out.length
    ) {
      this.#endSent = true;
      writeFrameHeader(out, at, {
        length: 0,
        type: FRAME.data,
        flags: FLAG.endStream,
        stream: STREAM,
      });
      at += HEADER_BYTES;
    }
    return out.subarray(0, at);
  }

  /** Fills a frame with waiting data. @returns how much */
  #fill(target: Uint8Array): number {
    let length = 0;
    for (let first; length < target.length && (first = this.#data[0]) !== undefined;) {
      const part = first.subarray(this.#sent, this.#sent + target.length - length);
      target.set(part, length);
      length += part.length;
      this.#sent += part.length;
      if (this.#sent < first.length) continue;
      this.#data.shift();
      this.#sent = 0;
    }
    return length;
  }
}

function unavailable(message: string): MosaicError {
  return new MosaicError("unavailable", message);
}
