/**
 * Services as plain functions: decodes requests, encodes answers, maps errors, holds long streams to the gate. A handler
 * sees typed messages and an AbortSignal, and knows nothing of grpc-js.
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  Metadata,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Buffer } from "node:buffer";
import type { EventEmitter } from "node:events";
import { boundReached } from "../base/load_limits.ts";
import { type ErrorCode, messageOf, MosaicError } from "../base/errors.ts";
import { ruleOf } from "./auth/access.ts";
import type { Gatekeeper, Principal } from "./auth/gatekeeper.ts";
import type { Logger } from "../base/log.ts";
import type { Counts } from "../observability/activity.ts";
import { Ingest } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Connections } from "./connections.ts";
import { asBuffer, methodPath } from "../wire/definition.ts";
import { bearerOf } from "./early_refusal.ts";
import { messagesOf } from "../wire/frames.ts";
import { type SendGates, StalledError, type StreamGate } from "./gate.ts";
import { statusOf } from "../wire/status.ts";
import { turn } from "./turns.ts";
import type { StreamBounds, StreamPlace } from "./stream_bounds.ts";

/** What a handler knows of its call. */
export interface Caller {
  /** `/package.Service/Method`. */
  path: string;
  metadata: Metadata;
  peer: string;
  principal: Principal;
  /** Aborted when the client went away, its deadline passed, or the server stops. */
  signal: AbortSignal;
  /** The stream is about this run. @throws MosaicError `resource_exhausted` when as many are as may be */
  follows(runId: string): void;
}

/** Messages from the client, in order, held back while nobody takes them. */
export interface Incoming<T> {
  /** All that wait (at least one), oldest first; empty when the client is done. @throws MosaicError when the call broke. */
  take(): Promise<T[]>;
  /** Makes `take` throw this from now on. */
  interrupt(error: MosaicError): void;
}

/** Messages to the client. */
export interface Outgoing<I extends DescMessage> {
  /**
   * Writes one message. Await what it gives before the next one: that is what bounds memory.
   * @throws MosaicError `aborted` when the client has gone, `unavailable` when it stood still for too long.
   */
  send(message: MessageInitShape<I>): Promise<void> | undefined;
  /** The same for a message that is encoded already. */
  sendBytes(bytes: Uint8Array): Promise<void> | undefined;
  /** The same for any number of encoded messages in gRPC's framing (./frames.ts). On a stream that sends nothing else. */
  sendFrames(framed: Uint8Array): Promise<void>;
}

type Awaitable<T> = T | Promise<T>;
type HandlerOf<M> = M extends
  { methodKind: infer Kind; input: infer I extends DescMessage; output: infer O extends DescMessage }
  ? Kind extends "unary" ? (request: MessageShape<I>, caller: Caller) => Awaitable<MessageInitShape<O>>
  : Kind extends "server_streaming" ? (request: MessageShape<I>, out: Outgoing<O>, caller: Caller) => Promise<void>
  : Kind extends "client_streaming"
    ? (incoming: Incoming<MessageShape<I>>, caller: Caller) => Promise<MessageInitShape<O>>
  : (incoming: Incoming<MessageShape<I>>, out: Outgoing<O>, caller: Caller) => Promise<void>
  : never;

/** One function per method of the service. */
export type Handlers<S extends DescService> = { [K in keyof S["method"]]: HandlerOf<S["method"][K]> };

export interface ServeContext {
  log: Logger;
  gates: SendGates;
  /** Aborted when the server stops. */
  stopping: AbortSignal;
  connections: Connections;
  streams: StreamBounds;
  /** Most bytes of one request. */
  maxMessageBytes: number;
  /** Decides who may call; without one, whoever can connect. */
  gatekeeper?: Gatekeeper;
  /** How calls ended, by `package.Service/Method CODE`. */
  calls: Counts;
}

type AnyCall =
  | ServerUnaryCall<Buffer, Buffer>
  | ServerReadableStream<Buffer, Buffer>
  | ServerWritableStream<Buffer, Buffer>
  | ServerDuplexStream<Buffer, Buffer>;
type AnswerCallback = (error: ReturnType<typeof statusOf> | null, value?: Buffer) => void;

/** Untyped view of a handler, inside this file only. */
type AnyHandler = (...args: unknown[]) => unknown;

/** grpc-js handlers for `addService(rawService(service), …)`. */
export function serve<S extends DescService>(
  service: S,
  handlers: Handlers<S>,
  context: ServeContext,
): UntypedServiceImplementation {
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    const handler = (handlers as Record<string, AnyHandler>)[method.localName]!;
    implementation[method.localName] = bind(method, handler.bind(handlers) as AnyHandler, context);
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
          (caller) => handler(request(context, method, call.request, caller), caller),
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
        streamOut(context, method, call, (out, caller) => handler(decode(method.input, call.request), out, caller));
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

/** A call that has come in; `enter` lets it go on, `free` ends it. */
interface Arrival {
  caller: Caller;
  /** @throws MosaicError when the caller may not make this call at all, or there are too many. */
  enter(): void;
  free(): void;
}

function arrival(context: ServeContext, method: DescMethod, call: AnyCall): Arrival {
  const gone = new AbortController();
  const abort = () => gone.abort();
  context.stopping.addEventListener("abort", abort, { once: true });
  (call as EventEmitter).on("cancelled", abort);
  if (call.cancelled || context.stopping.aborted) abort();
  const caller: Caller = {
    path: methodPath(method),
    metadata: call.metadata,
    peer: call.getPeer(),
    principal: NOBODY,
    signal: gone.signal,
    follows: (runId) => place?.follows(runId),
  };
  let place: StreamPlace | undefined;
  return {
    caller,
    enter() {
      if (context.gatekeeper !== undefined) {
        caller.principal = context.gatekeeper.enter(caller.path, bearerOf(caller.metadata));
      }
      // Viewers in any number keep no proxy out, of which there is one a run.
      if (isProxys(method)) return;
      context.connections.admit(caller.peer);
      if (method.methodKind === "unary") return;
      const { streams } = context;
      const needsNothing = ruleOf(caller.path)?.needs === "open";
      place = needsNothing ? streams.openToAnybody(caller.peer) : streams.open(caller.peer);
    },
    free() {
      context.stopping.removeEventListener("abort", abort);
      place?.leave();
    },
  };
}

function isProxys(method: DescMethod): boolean {
  return method.parent.typeName === Ingest.typeName;
}

/** The one message of a call, which its sender may send. */
function request(context: ServeContext, method: DescMethod, bytes: Buffer, caller: Caller): MessageShape<DescMessage> {
  if (bytes.length > context.maxMessageBytes && !isProxys(method)) {
    const what = `the request of ${method.name} has ${bytes.length} bytes`;
    throw boundReached("maxMessageBytes", context.maxMessageBytes, what, "Send less at once");
  }
  const message = decode(method.input, bytes);
  context.gatekeeper?.admit(caller.principal, caller.path, message);
  return message;
}

function incoming(
  context: ServeContext,
  method: DescMethod,
  call: ServerReadableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
  caller: Caller,
): Incoming<MessageShape<DescMessage>> {
  return new BoundedIncoming(call, (bytes) => request(context, method, bytes, caller), caller.signal);
}

const NOBODY: Principal = { type: "anybody" };

function decode<I extends DescMessage>(schema: I, bytes: Buffer): MessageShape<I> {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false });
  } catch (error) {
    throw new MosaicError("invalid_argument", `not a ${schema.typeName} message: ${messageOf(error)}`, {
      cause: error,
    });
  }
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
    bytes = asBuffer(
      toBinary(method.output, create(method.output, await handle(caller) as MessageInitShape<DescMessage>)),
    );
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
  const out = new GatedOutgoing(call, method.output, caller.signal, context.gates);
  // A broken connection shows as an error of the call as well as a cancellation; the latter is what handlers see.
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
    if (error instanceof StalledError) out.reset();
  } finally {
    out.release();
    free();
  }
}

function stopped(): MosaicError {
  return new MosaicError("unavailable", "the daemon is stopping", { hint: "Try again when it runs." });
}

function count(context: ServeContext, caller: Caller, code: ErrorCode | "ok" | "cancelled"): void {
  context.calls.add(`${caller.path.slice(1)} ${code}`);
}

function report(context: ServeContext, caller: Caller, error: unknown): void {
  count(context, caller, error instanceof MosaicError ? error.code : "internal");
  if (error instanceof MosaicError && error.code !== "internal") {
    context.log.debug({ rpc: caller.path, code: error.code, cause: causeText(error) }, error.message);
  } else {
    context.log.error({
      rpc: caller.path,
      err: error instanceof Error ? error.stack : String(error),
      cause: causeText(error),
    }, "a call failed");
  }
}

function causeText(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : undefined;
}

/** Grpc-js's own objects, of which only what the gate needs is named. */
interface Http2Side {
  session?: { socket?: { bytesWritten: number }; destroyed?: boolean };
  write(bytes: Uint8Array): boolean;
  close(code: number): void;
}

/** A call within the interceptors around it; the innermost has the stream. */
interface Layer {
  stream?: Http2Side;
  nextCall?: Layer;
}

/** Not part of grpc-js's public types; there is no other way to the socket's count. */
function http2SideOf(call: unknown): Http2Side | undefined {
  let layer = (call as { call?: Layer }).call;
  while (layer !== undefined && layer.stream === undefined) layer = layer.nextCall;
  return layer?.stream;
}

/** RST_STREAM code that clients show as UNAVAILABLE. */
const REFUSED_STREAM = 7;

/**
 * Frames are written in pieces, between which the gate may close; they need not end where a message ends. There is one
 * write a turn: what is written while another write is under way the runtime collects and copies into one buffer more.
 */
const WRITE_BYTES = 1 << 16;

class GatedOutgoing<O extends DescMessage> implements Outgoing<O> {
  readonly #call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;
  readonly #schema: O;
  readonly #signal: AbortSignal;
  readonly #gate: StreamGate | undefined;
  readonly #http2: Http2Side | undefined;
  /** Whether the call's headers were sent for frames. */
  #begun = false;

  constructor(
    call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
    schema: O,
    signal: AbortSignal,
    gates: SendGates,
  ) {
    this.#call = call;
    this.#schema = schema;
    this.#signal = signal;
    this.#http2 = http2SideOf(call);
    const session = this.#http2?.session;
    if (session !== undefined) this.#gate = gates.open(session, () => sentBytes(session));
  }

  send(message: MessageInitShape<O>): Promise<void> | undefined {
    return this.sendBytes(toBinary(this.#schema, create(this.#schema, message)));
  }

  sendBytes(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#signal.aborted) throw new MosaicError("aborted", "the client has gone");
    this.#call.write(asBuffer(bytes));
    // With 5 bytes of gRPC framing, and none of HTTP/2's: several messages may share a frame, and an account of more than
    // is ever sent would never be settled.
    this.#gate?.wrote(bytes.length + 5);
    return this.#gate?.ready();
  }

  async sendFrames(framed: Uint8Array): Promise<void> {
    if (this.#http2 === undefined) {
      for (const message of messagesOf(framed)) await this.sendBytes(message);
      return;
    }
    if (!this.#begun) {
      this.#begun = true;
      this.#call.sendMetadata(new Metadata());
    }
    for (let at = 0; at < framed.length; at += WRITE_BYTES) {
      if (this.#signal.aborted) throw new MosaicError("aborted", "the client has gone");
      const bytes = framed.subarray(at, at + WRITE_BYTES);
      // Past grpc-js, which would make a frame, a copy and a write of each message.
      this.#http2.write(bytes);
      this.#gate?.wrote(bytes.length);
      const ready = this.#gate?.ready();
      if (ready !== undefined) await ready;
      else if (at + WRITE_BYTES < framed.length) await turn();
    }
  }

  /** Drops what the reader has not taken. */
  reset(): void {
    try {
      this.#http2?.close(REFUSED_STREAM);
    } catch {
      // The connection is gone already.
    }
  }

  release(): void {
    this.#gate?.release();
  }
}

function sentBytes(session: NonNullable<Http2Side["session"]>): number | undefined {
  try {
    // Throws after a disconnect.
    return session.destroyed ? undefined : session.socket?.bytesWritten;
  } catch {
    return undefined;
  }
}

/** Beyond either of these the client's messages stay in its own window. */
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

  /** @param signal aborted when the client has gone or the server stops: who waits for messages is woken. */
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
      // What arrived before the client went still counts.
      if (this.#held.length > 0) break;
      if (this.#ended) return [];
      if (this.#gone) throw new MosaicError("aborted", "the client has gone");
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
