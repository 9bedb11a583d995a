/**
 * A bidirectional gRPC call over a Unix socket, by the runtime's own HTTP client.
 *
 * It is there for the proxy, of which there is one for every run: grpc-js, and the layer of Node's modules below it, is
 * most of the time and a third of the memory that a proxy would take to start. What it lacks: trailers cannot be had, so a
 * stream that the other end breaks off after its first message ends without a reason (a refusal before that comes in the
 * headers, reason and all). TCP is left to grpc-js, because this client gathers what it sends until what was sent before is
 * acknowledged (no TCP_NODELAY): each 64 KiB, the window of the runtime's server, would take 40 ms.
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
import { messageOf, MosaicError } from "../errors.ts";
import { missingNet } from "../permissions/missing.ts";
import { parseListen, SOCKET_AUTHORITY } from "../rpc/address.ts";
import { errorOfStatus, HINT_TRAILER } from "../rpc/status_codes.ts";
import type { Duplex } from "./client.ts";

const PREFIX_BYTES = 5;
const MAX_MESSAGE_BYTES = 64 << 20;

/** Whether it is for this target, and this process may use it: one that was started under an older plan may not. */
export function mayStreamBySocket(target: string): boolean {
  return target.startsWith("unix:") && missingNet(SOCKET_AUTHORITY) === undefined;
}

/** @throws MosaicError `invalid_argument` for a target that is no Unix socket. */
export function socketStream<I extends DescMessage, O extends DescMessage>(
  method: DescMethodBiDiStreaming<I, O>,
  { target, token }: { target: string; token: string | undefined },
): Duplex<I, O> {
  const client = httpClient(target);
  const ended = new AbortController();
  let outgoing: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => void (outgoing = controller),
    cancel: () => void (outgoing = undefined),
  });
  const answer = fetch(`http://${SOCKET_AUTHORITY}/${method.parent.typeName}/${method.name}`, {
    method: "POST",
    client,
    body,
    headers: {
      "content-type": "application/grpc",
      "te": "trailers",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    signal: ended.signal,
  });
  // Who reads is told; nobody may read.
  answer.catch(() => {});
  const end = () => {
    outgoing?.close();
    outgoing = undefined;
  };
  return {
    send: (message: MessageInitShape<I>) =>
      outgoing?.enqueue(framed(toBinary(method.input, create(method.input, message)))),
    end,
    cancel() {
      if (ended.signal.aborted) return;
      ended.abort();
      // After the answer's end nobody heeds that: the request would stay open, and the daemon would wait for its end to stop.
      outgoing?.error(new Error("cancelled"));
      outgoing = undefined;
      client.close();
    },
    async *[Symbol.asyncIterator](): AsyncGenerator<MessageShape<O>, void> {
      try {
        const response = await answer;
        refuse(response);
        for await (const bytes of messages(response.body!)) yield fromBinary(method.output, bytes);
      } catch (error) {
        if (ended.signal.aborted || error instanceof MosaicError) throw error;
        throw new MosaicError("unavailable", `no daemon answers at ${target}: ${reasonOf(error)}`, { cause: error });
      }
    },
  };
}

/** Without what everybody knows: that a request was sent, to the URL that stands for the target. */
function reasonOf(error: unknown): string {
  const reason = messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
  return reason.replace(/^error sending request for url \([^)]*\): (client error \(Connect\): )?/, "");
}

function httpClient(target: string): Deno.HttpClient {
  const address = parseListen(target);
  if (address.type !== "unix") throw new MosaicError("invalid_argument", `${target} is no Unix socket`);
  return Deno.createHttpClient({ http1: false, http2: true, proxy: { transport: "unix", path: address.path } });
}

/** @throws what the headers say, where the call was refused before anything was answered. */
function refuse({ ok, status, headers }: Response): void {
  const code = headers.get("grpc-status");
  if (code !== null && code !== "0") {
    const hint = headers.get(HINT_TRAILER);
    throw errorOfStatus(
      Number(code),
      decodeURIComponent(headers.get("grpc-message") ?? ""),
      { hint: hint ? utf8(hint) : undefined },
    );
  }
  if (!ok) throw new MosaicError("unavailable", `what answers is no daemon: HTTP status ${status}`);
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
  let held = new Uint8Array(0);
  for await (const piece of body) {
    held = held.length === 0 ? new Uint8Array(piece) : joined(held, piece);
    while (held.length >= PREFIX_BYTES) {
      const length = new DataView(held.buffer, held.byteOffset).getUint32(1);
      if (held[0] !== 0 || length > MAX_MESSAGE_BYTES) {
        throw new MosaicError("internal", `the daemon sent a message of ${length} bytes, coded ${held[0]}`);
      }
      if (held.length < PREFIX_BYTES + length) break;
      yield held.subarray(PREFIX_BYTES, PREFIX_BYTES + length);
      held = held.subarray(PREFIX_BYTES + length);
    }
  }
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
