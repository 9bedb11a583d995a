/**
 * Serves plain functions by grpc-js: decodes requests, encodes answers, maps errors, and lets long streams wait for the
 * gate. A handler sees typed messages and an AbortSignal, and nothing of grpc-js.
 */
import type { DescMessage, DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type {
  ServerDuplexStream,
  ServerReadableStream,
  ServerUnaryCall,
  ServerWritableStream,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Buffer } from "node:buffer";
import type { EventEmitter } from "node:events";
import { MosaicError } from "../../base/errors.ts";
import { asBuffer } from "../../wire/definition.ts";
import { FRAME_BYTES, messagesOf } from "../../wire/message_frames.ts";
import { statusOf } from "../../wire/grpc_status.ts";
import { type Arrival, arrivalOf, type CallContext, count, encode, report, requestOf, stopped } from "../calls.ts";
import type { Connections } from "./connections.ts";
import type { StreamGate } from "./gate.ts";
import {
  type AnyHandler,
  type Caller,
  handlerOf,
  type Handlers,
  type Incoming,
  type Outgoing,
  StalledError,
} from "../handlers.ts";

export interface ServeContext extends CallContext {
  connections: Connections;
}

type AnyCall =
  | ServerUnaryCall<Buffer, Buffer>
  | ServerReadableStream<Buffer, Buffer>
  | ServerWritableStream<Buffer, Buffer>
  | ServerDuplexStream<Buffer, Buffer>;
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
  switch (method.methodKind) {
    case "unary":
      return (call: ServerUnaryCall<Buffer, Buffer>, answer: AnswerCallback) =>
        answerOnce(
          context,
          method,
          call,
          answer,
          (caller) => handler(requestOf(context, method, call.request, caller), caller),
        );
    case "client_streaming":
      return (call: ServerReadableStream<Buffer, Buffer>, answer: AnswerCallback) =>
        answerOnce(
          context,
          method,
          call,
          answer,
          (caller) => handler(incoming(context, method, call, caller), caller),
        );
    case "server_streaming":
      return (call: ServerWritableStream<Buffer, Buffer>) =>
        streamOut(
          context,
          method,
          call,
          (out, caller) => handler(requestOf(context, method, call.request, caller), out, caller),
        );
    case "bidi_streaming":
      return (call: ServerDuplexStream<Buffer, Buffer>) =>
        streamOut(
          context,
          method,
          call,
          (out, caller) => handler(incoming(context, method, call, caller), out, caller),
        );
  }
}

function arrival(context: ServeContext, method: DescMethod, call: AnyCall): Arrival {
  const gone = new AbortController();
  const abort = () => gone.abort();
  context.stopping.addEventListener("abort", abort, { once: true });
  (call as EventEmitter).on("cancelled", abort);
  if (call.cancelled || context.stopping.aborted) abort();
  const name = call.getPeer();
  const { caller, enter, free } = arrivalOf(context, {
    method,
    peer: context.connections.peerOf(name),
    header: (name) => call.metadata.get(name)[0]?.toString(),
    signal: gone.signal,
  });
  return {
    caller,
    enter() {
      context.connections.admit(name);
      enter();
    },
    free() {
      context.stopping.removeEventListener("abort", abort);
      free();
    },
  };
}

function incoming(
  context: ServeContext,
  method: DescMethod,
  call: ServerReadableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
  caller: Caller,
): Incoming<MessageShape<DescMessage>> {
  return new BoundedIncoming(call, (bytes) => requestOf(context, method, bytes, caller), caller.signal);
}

async function answerOnce(
  context: ServeContext,
  method: DescMethod,
  call: AnyCall,
  answer: AnswerCallback,
  handle: (caller: Caller) => unknown,
): Promise<void> {
  const { caller, enter, free } = arrival(context, method, call);
  let bytes: Buffer;
  try {
    enter();
    bytes = asBuffer(encode(method.output, await handle(caller)));
  } catch (error) {
    report(context, caller, error);
    answer(statusOf(error));
    return;
  } finally {
    free();
  }
  count(context, caller, "ok");
  answer(null, bytes);
}

async function streamOut(
  context: ServeContext,
  method: DescMethod,
  call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
  handle: (out: Outgoing<DescMessage>, caller: Caller) => unknown,
): Promise<void> {
  const { caller, enter, free } = arrival(context, method, call);
  const out = new GatedOutgoing(call, method.output, caller.signal, context.connections.gate(caller.peer.name));
  // A broken connection appears as an error of the call as well as a cancellation; handlers see the latter.
  call.on("error", () => {});
  try {
    enter();
    await handle(out, caller);
    if (context.stopping.aborted) throw stopped();
    count(context, caller, caller.signal.aborted ? "cancelled" : "ok");
    if (!caller.signal.aborted) call.end();
  } catch (error) {
    if (caller.signal.aborted) count(context, caller, context.stopping.aborted ? "unavailable" : "cancelled");
    if (context.stopping.aborted) call.emit("error", statusOf(stopped()));
    else if (!caller.signal.aborted) {
      report(context, caller, error);
      call.emit("error", statusOf(error));
    }
    // Data that waits for its reader can only be dropped together with the connection.
    if (error instanceof StalledError) context.connections.drop(caller.peer.name);
  } finally {
    out.release();
    free();
  }
}

class GatedOutgoing<O extends DescMessage> implements Outgoing<O> {
  readonly #call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;
  readonly #schema: O;
  readonly #signal: AbortSignal;
  readonly #gate: StreamGate | undefined;

  constructor(
    call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
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
    if (this.#signal.aborted) throw new MosaicError("aborted", "the client has disconnected");
    this.#call.write(asBuffer(bytes));
    // Includes 5 bytes of gRPC framing, but none of HTTP/2's: several messages may share a frame, and counting more than is
    // sent would never be settled.
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

/** Beyond either bound the client's messages stay in its own window. */
const HELD_MESSAGES = 256;
const HELD_BYTES = 1 << 20;

class BoundedIncoming<T> implements Incoming<T> {
  readonly #call: ServerReadableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;
  readonly #decode: (bytes: Buffer) => T;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #ended = false;
  #gone = false;
  #interrupted: MosaicError | undefined;
  #paused = false;
  #wake: (() => void) | undefined;

  /** @param signal aborted when the client has left or the server stops; it wakes a waiting `take` */
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
      if (this.#gone) throw new MosaicError("aborted", "the client has disconnected");
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

  interrupt(error: MosaicError): void {
    this.#interrupted ??= error;
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
