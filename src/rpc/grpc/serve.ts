/**
 * Serves handlers by grpc-js: decodes requests, encodes answers, maps errors, and makes long
 * streams wait for the gate. Handlers do not depend on grpc-js.
 */
import type { DescMessage, DescMethod, DescService, MessageInitShape } from "@bufbuild/protobuf";
import type {
  Metadata,
  ServerDuplexStream,
  ServerReadableStream,
  ServerUnaryCall,
  ServerWritableStream,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Buffer } from "node:buffer";
import type { EventEmitter } from "node:events";
import { asBuffer } from "../../wire/definition.ts";
import { FRAME_BYTES, messagesOf } from "../../wire/message_frames.ts";
import { statusOf } from "../../wire/grpc_status.ts";
import { type CallContext, encode, ServerCall } from "../call/calls.ts";
import type { Connections } from "./connections.ts";
import type { StreamGate } from "./gate.ts";
import {
  type AnyHandler,
  clientDisconnected,
  handlerOf,
  type Handlers,
  type Incoming,
  type Outgoing,
  StalledError,
} from "../call/handlers.ts";

export interface ServeContext extends CallContext {
  connections: Connections;
}

/** Calls whose answer is a stream. */
type StreamingCall = ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;
type AnyCall =
  | ServerUnaryCall<Buffer, Buffer>
  | ServerReadableStream<Buffer, Buffer>
  | StreamingCall;
type AnswerCallback = (error: ReturnType<typeof statusOf> | null, value?: Buffer) => void;

/** grpc-js handlers for `addService(rawService(service), …)`. */
export function serve<S extends DescService>(
  service: S,
  handlers: Handlers<S>,
  context: ServeContext,
): UntypedServiceImplementation {
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    implementation[method.localName] = bind(method, handlerOf(handlers, method.localName), context);
  }
  return implementation;
}

// deno-lint-ignore no-explicit-any -- grpc-js's own type for a handler of any kind
function bind(method: DescMethod, handler: AnyHandler, context: ServeContext): any {
  const { methodKind } = method;
  const inputOf = (call: AnyCall, serverCall: ServerCall) =>
    "request" in call
      ? serverCall.message(call.request)
      : new BoundedIncoming(call, (bytes) => serverCall.message(bytes), serverCall.caller.signal);
  if (methodKind === "unary" || methodKind === "client_streaming") {
    return (
      call: ServerUnaryCall<Buffer, Buffer> | ServerReadableStream<Buffer, Buffer>,
      answer: AnswerCallback,
    ) =>
      answerOnce(
        context,
        method,
        call,
        answer,
        (serverCall) => handler(inputOf(call, serverCall), serverCall.caller),
      );
  }
  return (call: StreamingCall) =>
    streamOut(
      context,
      method,
      call,
      (out, serverCall) => handler(inputOf(call, serverCall), out, serverCall.caller),
    );
}

function serverCallOf(context: ServeContext, method: DescMethod, call: AnyCall): ServerCall {
  const peer = context.connections.peerOf(call.getPeer());
  const serverCall = new ServerCall(context, {
    method,
    peer,
    header: headerOf(call.metadata),
  });
  (call as EventEmitter).on("cancelled", () => serverCall.end());
  if (call.cancelled) serverCall.end();
  return serverCall;
}

/** The library takes only calls of this content type, and removes the header. */
export function headerOf(metadata: Metadata): (name: string) => string | undefined {
  return (name) => name === "content-type" ? "application/grpc" : metadata.get(name)[0]?.toString();
}

function enter(context: ServeContext, serverCall: ServerCall): void {
  context.connections.admit(serverCall.caller.peer.name);
  serverCall.enter();
}

async function answerOnce(
  context: ServeContext,
  method: DescMethod,
  call: AnyCall,
  answer: AnswerCallback,
  handle: (serverCall: ServerCall) => unknown,
): Promise<void> {
  const serverCall = serverCallOf(context, method, call);
  try {
    enter(context, serverCall);
    const bytes = asBuffer(encode(method.output, await handle(serverCall)));
    serverCall.succeeded();
    answer(null, bytes);
  } catch (error) {
    serverCall.failed(error);
    answer(statusOf(error));
  } finally {
    serverCall.free();
  }
}

async function streamOut(
  context: ServeContext,
  method: DescMethod,
  call: StreamingCall,
  handle: (out: Outgoing<DescMessage>, serverCall: ServerCall) => unknown,
): Promise<void> {
  const serverCall = serverCallOf(context, method, call);
  const { signal, peer } = serverCall.caller;
  const out = new GatedOutgoing(call, method.output, signal, context.connections.gate(peer.name));
  // A broken connection shows as an error of the call as well as a cancellation; the latter is what
  // handlers see.
  call.on("error", () => {});
  let thrown: unknown;
  try {
    enter(context, serverCall);
    await handle(out, serverCall);
  } catch (error) {
    thrown = error;
  }
  const error = serverCall.streamEnded(thrown);
  if (error !== undefined) call.emit("error", statusOf(error));
  else if (!signal.aborted) call.end();
  // Waiting data of one stream cannot be dropped, so the connection is closed.
  if (thrown instanceof StalledError) context.connections.drop(peer.name);
  out.release();
  serverCall.free();
}

class GatedOutgoing<O extends DescMessage> implements Outgoing<O> {
  readonly #call: StreamingCall;
  readonly #schema: O;
  readonly #signal: AbortSignal;
  readonly #gate: StreamGate | undefined;

  constructor(
    call: StreamingCall,
    schema: O,
    signal: AbortSignal,
    gate: StreamGate | undefined,
  ) {
    this.#call = call;
    this.#schema = schema;
    this.#signal = signal;
    this.#gate = gate;
  }

  send(message: MessageInitShape<O>): Promise<void> | undefined {
    return this.sendBytes(encode(this.#schema, message));
  }

  sendBytes(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#signal.aborted) throw clientDisconnected();
    this.#call.write(asBuffer(bytes));
    // Includes 5 bytes of gRPC framing, but none of HTTP/2's: several messages may share a frame,
    // and counting more than is sent would never be settled.
    this.#gate?.wrote(bytes.length + FRAME_BYTES);
    return this.#gate?.ready();
  }

  async sendFrames(framed: Uint8Array): Promise<void> {
    for (const message of messagesOf(framed)) {
      const ready = this.sendBytes(message);
      if (ready !== undefined) await ready;
    }
  }

  release(): void {
    this.#gate?.release();
  }
}

/** At either bound reading stops, and further messages wait at the client. */
const HELD_MESSAGES = 256;
const HELD_BYTES = 1 << 20;

class BoundedIncoming<T> implements Incoming<T> {
  readonly #call: ServerReadableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;
  readonly #decode: (bytes: Buffer) => T;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #ended = false;
  #gone = false;
  #interrupted: Error | undefined;
  #paused = false;
  #wake: (() => void) | undefined;

  /**
   * @param signal aborted when the client has left or the server stops; it wakes a waiting `take`
   */
  constructor(
    call: ServerReadableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
    decode: (bytes: Buffer) => T,
    signal: AbortSignal,
  ) {
    this.#call = call;
    this.#decode = decode;
    call.on("data", (bytes: Buffer) => {
      this.#held.push(bytes);
      this.#heldBytes += bytes.length;
      if (this.#held.length >= HELD_MESSAGES || this.#heldBytes >= HELD_BYTES) {
        this.#paused = true;
        call.pause();
      }
      this.#notify();
    });
    call.on("end", () => {
      this.#ended = true;
      this.#notify();
    });
    const gone = () => {
      this.#gone = true;
      this.#notify();
    };
    call.on("error", gone);
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  }

  async take(): Promise<T[]> {
    for (;;) {
      if (this.#interrupted !== undefined) throw this.#interrupted;
      // Messages that arrived before the client left still count.
      if (this.#held.length > 0) break;
      if (this.#ended) return [];
      if (this.#gone) throw clientDisconnected();
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const taken = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    if (this.#paused) {
      this.#paused = false;
      this.#call.resume();
    }
    return taken.map(this.#decode);
  }

  interrupt(error: Error): void {
    this.#interrupted ??= error;
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
