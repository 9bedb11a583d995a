/**
 * The Connect protocol with binary messages, as its client reads it:
 * https://connectrpc.com/docs/protocol. A unary call has one message each way; a stream's messages
 * are in envelopes (a byte of flags, four bytes of length), of which the last says how the stream
 * ended.
 */
import { DEFAULT_HTTP } from "../../base/agreed.ts";
import { type ErrorCode, messageOf, MosaicError } from "../../base/errors.ts";
import { PendingBytes } from "./pending_bytes.ts";
import { errorOf, HINT_TRAILER, RETRY_TRAILER, STATUS } from "../status_codes.ts";

export const UNARY_TYPE = "application/proto";
export const STREAM_TYPE = "application/connect+proto";
export const MAX_MESSAGE_BYTES = 64 << 20;

const PREFIX_BYTES = 5;
/** The flag of the envelope that ends a stream. */
export const END_STREAM = 2;

/** Reads a header or a value of the last envelope's metadata. */
type Metadata = (name: string) => string | undefined;

interface WireError {
  code?: unknown;
  message?: unknown;
  /** For refusals of the page's server, which have no metadata. */
  hint?: unknown;
}

export function envelope(message: Uint8Array, flags = 0): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(PREFIX_BYTES + message.length);
  bytes[0] = flags;
  new DataView(bytes.buffer).setUint32(1, message.length);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

/**
 * The messages of a stream's answer, from bytes in chunks of any size.
 * @throws MosaicError the error with which the stream ended; `unavailable` if it broke off,
 * `internal` for an invalid
 *   envelope
 */
export async function* messagesOf(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  const pending = new PendingBytes();
  for await (const chunk of body) {
    pending.push(chunk);
    for (;;) {
      const { bytes } = pending;
      if (bytes.length < PREFIX_BYTES) break;
      const flags = bytes[0]!;
      const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
      if ((flags & ~END_STREAM) !== 0 || length > MAX_MESSAGE_BYTES) {
        throw new MosaicError(
          "internal",
          `the daemon sent a message of ${length} bytes with the flags ${flags}`,
        );
      }
      if (bytes.length < PREFIX_BYTES + length) break;
      // The message's fields are views of it.
      const message = bytes.slice(PREFIX_BYTES, PREFIX_BYTES + length);
      pending.drop(PREFIX_BYTES + length);
      if (flags === END_STREAM) return throwErrorOfEnd(message);
      yield message;
    }
  }
  throw new MosaicError("unavailable", "the daemon broke off the stream");
}

/** @throws MosaicError the error in the last envelope */
function throwErrorOfEnd(bytes: Uint8Array): void {
  const end = parsed(bytes);
  if (typeof end?.["error"] !== "object" || end["error"] === null) return;
  const metadata = end["metadata"] as Record<string, unknown> | undefined;
  throw errorIn(end["error"], (name) => {
    const values = metadata?.[name];
    return Array.isArray(values) && typeof values[0] === "string" ? values[0] : undefined;
  });
}

/** The error of a call that was answered with an HTTP status other than 200. */
export function errorOfAnswer(
  status: number,
  body: Uint8Array,
  header: Metadata,
  target: string,
): MosaicError {
  const parsedBody = parsed(body);
  // The page's server wraps its refusals.
  const error = typeof parsedBody?.["error"] === "object" && parsedBody["error"] !== null
    ? parsedBody["error"]
    : parsedBody;
  if (typeof (error as WireError | undefined)?.code === "string") {
    return errorIn(error as WireError, header);
  }
  return new MosaicError(
    "unavailable",
    `the server at ${target} is not a daemon's API: HTTP status ${status}`,
    {
      hint:
        `The API is at the address of --http (${DEFAULT_HTTP} by default) and at the daemon's own Unix socket.`,
    },
  );
}

function errorIn({ code, message, hint }: WireError, metadata: Metadata): MosaicError {
  const coded = metadata(HINT_TRAILER);
  return errorOf(codeOf(code), String(message ?? code), {
    hint: coded !== undefined ? utf8(coded) : typeof hint === "string" ? hint : undefined,
    retryAfterMs: metadata(RETRY_TRAILER),
  });
}

function codeOf(code: unknown): ErrorCode {
  if (code === "canceled") return "aborted";
  return typeof code === "string" && Object.hasOwn(STATUS, code) ? code as ErrorCode : "internal";
}

function parsed(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === "object" && value !== null
      ? value as Record<string, unknown>
      : undefined;
  } catch {
    // The caller reports what was received instead.
    return undefined;
  }
}

function utf8(base64: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
  } catch (error) {
    return messageOf(error);
  }
}
