/**
 * A bidirectional gRPC call over a plain socket, TCP or Unix, by HTTP/2 of our own.
 *
 * It is there for the proxy, of which there is one for every run: grpc-js, and the layer of Node's modules below it, is
 * most of the time and a fifth of the memory that a proxy would take to start. The runtime's own HTTP client is no better
 * choice: over TCP it gathers what it sends until what was sent before is acknowledged (no TCP_NODELAY), which takes 40 ms
 * for each message of more than a kilobyte, and it gives nobody the trailers, in which gRPC says why a call has ended.
 */
import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../base/errors.ts";
import { explainMissing } from "../permissions/missing.ts";
import type { ListenAddress } from "./address.ts";
import { errorOfStatus, HINT_TRAILER } from "./status_codes.ts";
import { parseTarget } from "./dialable.ts";
import type { Header } from "./hpack.ts";
import { Http2Call } from "./http2_call.ts";
import { PendingBytes } from "./pending_bytes.ts";

const PREFIX_BYTES = 5;
const MAX_MESSAGE_BYTES = 64 << 20;

/** Whoever opens one reads it: reading is what keeps it going. */
export interface SocketStream<I extends DescMessage, O extends DescMessage> extends AsyncIterable<MessageShape<O>> {
  send(message: MessageInitShape<I>): void;
  cancel(): void;
}

/** @throws MosaicError `invalid_argument` for a target that is no address or a token that is none. */
export function socketStream<I extends DescMessage, O extends DescMessage>(
  method: DescMethodBiDiStreaming<I, O>,
  { target, token }: { target: string; token: string | undefined },
): SocketStream<I, O> {
  const address = parseTarget(target);
  const call = new Http2Call({
    dial: (signal) => dial(address, signal),
    headers: [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", `/${method.parent.typeName}/${method.name}`],
      [":authority", address.type === "tcp" ? target : "localhost"],
      ["content-type", "application/grpc"],
      ["te", "trailers"],
      ...(token === undefined ? [] : [["authorization", `Bearer ${token}`, "secret"] satisfies Header]),
    ],
    onHeaders: refuse,
  });
  return {
    send: (message: MessageInitShape<I>) => call.send(framed(toBinary(method.input, create(method.input, message)))),
    cancel: () => call.cancel(),
    async *[Symbol.asyncIterator](): AsyncGenerator<MessageShape<O>, void> {
      try {
        for await (const bytes of messages(call.answer())) yield fromBinary(method.output, bytes);
      } catch (error) {
        if (call.cancelled || error instanceof MosaicError) throw error;
        const known = explainMissing(error);
        if (known instanceof MosaicError) throw known;
        throw new MosaicError("unavailable", `no daemon answers at ${target}: ${messageOf(error)}`, { cause: error });
      }
    },
  };
}

async function dial(address: ListenAddress, signal: AbortSignal): Promise<Deno.Conn> {
  if (address.type === "unix") return await Deno.connect({ transport: "unix", path: address.path });
  const hostname = address.host.replace(/^\[|\]$/g, "");
  const conn = await Deno.connect({ hostname, port: address.port, signal });
  conn.setNoDelay(true);
  return conn;
}

/** @throws what the headers or trailers say of a call that did not end well. */
function refuse(headers: Map<string, string>): void {
  const code = headers.get("grpc-status");
  if (code !== undefined && code !== "0") {
    const hint = headers.get(HINT_TRAILER);
    throw errorOfStatus(
      Number(code),
      decodedText(headers.get("grpc-message") ?? ""),
      { hint: hint ? utf8(hint) : undefined },
    );
  }
  const status = headers.get(":status") ?? "200";
  if (status !== "200") throw new MosaicError("unavailable", `what answers is no daemon: HTTP status ${status}`);
}

/** What is not coded as it should be is shown as it came. */
function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

function utf8(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
}

/** A message with the prefix that says its length. */
function framed(message: Uint8Array): Uint8Array {
  const frame = new Uint8Array(PREFIX_BYTES + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** The messages in a body, however it comes in pieces. @throws MosaicError `internal` for what is none. */
export async function* messages(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const pending = new PendingBytes();
  for await (const piece of body) {
    pending.push(piece);
    for (;;) {
      const { bytes } = pending;
      if (bytes.length < PREFIX_BYTES) break;
      const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
      if (bytes[0] !== 0 || length > MAX_MESSAGE_BYTES) {
        throw new MosaicError("internal", `the daemon sent a message of ${length} bytes, coded ${bytes[0]}`);
      }
      if (bytes.length < PREFIX_BYTES + length) break;
      // Its fields are views of it.
      const message = bytes.slice(PREFIX_BYTES, PREFIX_BYTES + length);
      pending.drop(PREFIX_BYTES + length);
      yield message;
    }
  }
}
