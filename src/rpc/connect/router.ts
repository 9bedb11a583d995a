/** Calls through Connect's own library: unary ones in all forms, streams in JSON and gRPC-Web. */
import type { DescMessage, DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { createContextKey, createContextValues, type HandlerContext, type MethodImplSpec } from "@connectrpc/connect";
import { createHandlerFactory as createConnect } from "@connectrpc/connect/protocol-connect";
import { createHandlerFactory as createGrpcWeb } from "@connectrpc/connect/protocol-grpc-web";
import {
  createUniversalMethodHandler,
  type UniversalHandler,
  type UniversalHandlerOptions,
} from "@connectrpc/connect/protocol";
import { MosaicError } from "../../base/errors.ts";
import { messagesOf } from "../../wire/message_frames.ts";
import { methodPath } from "../../wire/method_path.ts";
import { admitted, type Arrival, arrivalOf, type CallContext, count, decode, isProxys } from "../calls.ts";
import { MAX_MESSAGE_BYTES, type Peer, principalOf, report, requireSize, stopped } from "../calls.ts";
import { type AnyHandler, handlerOf, type Handlers, type Incoming, type Outgoing } from "../handlers.ts";
import { Interruption } from "../interruption.ts";
import { AnswerBody } from "./body.ts";
import { MAX_TIMER_MS } from "./deadline.ts";
import { connectError } from "./errors.ts";
import type { StreamOptions } from "./streams.ts";
import { wholeAnswer } from "./whole_answer.ts";

type Answer = MessageInitShape<DescMessage>;

const PEER = createContextKey<Peer>({ name: "unknown", owner: false }, { description: "who calls" });

export class Router {
  readonly #context: CallContext;
  readonly #options: StreamOptions;
  readonly #shutdown = new AbortController();
  readonly #handlers = new Map<string, UniversalHandler>();

  constructor(context: CallContext, options: StreamOptions) {
    this.#context = context;
    this.#options = options;
    context.stopping.addEventListener("abort", () => this.#shutdown.abort(connectError(stopped())), { once: true });
  }

  add<S extends DescService>(service: S, handlers: Handlers<S>): void {
    const most = service.methods.some(isProxys) ? MAX_MESSAGE_BYTES : this.#context.maxMessageBytes;
    const options: Partial<UniversalHandlerOptions> = {
      readMaxBytes: most,
      // A timer cannot wait for longer: it would end at once.
      maxTimeoutMs: MAX_TIMER_MS,
      binaryOptions: { readUnknownFields: false },
      shutdownSignal: this.#shutdown.signal,
      requestGate: (call) => gate(this.#context, most, call),
    };
    const protocols = [createConnect(options), createGrpcWeb(options)];
    for (const method of service.methods) {
      const spec = specOf(this.#context, method, handlerOf(handlers, method.localName));
      this.#handlers.set(methodPath(method), createUniversalMethodHandler(spec, protocols));
    }
  }

  async answer(method: DescMethod, request: Request, peer: Peer): Promise<Response> {
    const gone = new AbortController();
    const { status, header, body } = await this.#handlers.get(methodPath(method))!({
      httpVersion: "2.0",
      method: request.method,
      url: request.url,
      header: request.headers,
      body: chunksOf(request.body),
      // The request's own would be aborted by every end, not only by a client that leaves.
      signal: gone.signal,
      contextValues: createContextValues().set(PEER, peer),
    });
    const answer = { status, headers: header };
    if (body === undefined) return new Response(null, answer);
    // Connect's are in one piece, gRPC-Web's end with their trailers.
    if (header?.get("content-length")) {
      const { value } = await body[Symbol.asyncIterator]().next();
      const bytes = value as Uint8Array<ArrayBuffer> | undefined ?? new Uint8Array();
      return wholeAnswer(this.#context, peer.name, bytes, { headers: new Headers(header), status }, this.#options);
    }
    const out = new AnswerBody(() => gone.abort(), this.#options.stallMs);
    out.writeAll(body).catch((error) => {
      gone.abort();
      out.reset(error);
    });
    return new Response(out.stream, answer);
  }
}

/** The library holds all chunks of a message until it is whole, and the runtime gives a single byte in a buffer of 64 KiB. */
export async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  for await (const chunk of body) yield chunk.slice();
}

function specOf(context: CallContext, method: DescMethod, handler: AnyHandler): MethodImplSpec {
  const clientStreams = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const serverStreams = method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming";
  const impl = (given: unknown, call: HandlerContext) => {
    const peer = call.values.get(PEER);
    const arrival = arrivalOf(context, { method, peer, header: headerOf(call), signal: call.signal });
    const { caller } = arrival;
    const input = () =>
      clientStreams
        ? new Taken(given as AsyncIterable<unknown>, (message) => admitted(context, message, caller), caller.signal)
        : admitted(context, given, caller);
    return serverStreams
      ? streamed(context, method, arrival, (out) => handler(input(), out, caller))
      : answered(context, arrival, () => handler(input(), caller));
  };
  return { kind: method.methodKind, method, impl } as MethodImplSpec;
}

/** Refuses by the headers, before any of the message is taken: strangers cannot make the daemon hold 64 MiB each. */
function gate(context: CallContext, most: number, call: HandlerContext): void {
  try {
    principalOf(context, { path: methodPath(call.method), peer: call.values.get(PEER), header: headerOf(call) });
    requireSize(call.method, Number(call.requestHeader.get("content-length") ?? "0"), most);
  } catch (error) {
    throw connectError(error);
  }
}

function headerOf(call: HandlerContext): (name: string) => string | undefined {
  return (name) => call.requestHeader.get(name) ?? undefined;
}

async function answered(
  context: CallContext,
  { caller, enter, free }: Arrival,
  handle: () => unknown,
): Promise<Answer> {
  try {
    enter();
    const answer = await handle();
    count(context, caller, "ok");
    return answer as Answer;
  } catch (error) {
    report(context, caller, error);
    throw connectError(error);
  } finally {
    free();
  }
}

async function* streamed(
  context: CallContext,
  method: DescMethod,
  { caller, enter, free }: Arrival,
  start: (out: HandedOver) => unknown,
): AsyncGenerator<Answer> {
  const out = new HandedOver(method.output);
  /** False where whoever reads stopped before the end. */
  let ended = false;
  try {
    enter();
    const over = (async () => await start(out))();
    over.then(() => out.close(), () => out.close());
    for (let message = await out.next(); message !== undefined; message = await out.next()) yield message;
    ended = true;
    await over;
    if (context.stopping.aborted) throw stopped();
    count(context, caller, caller.signal.aborted ? "cancelled" : "ok");
  } catch (error) {
    ended = true;
    if (caller.signal.aborted && !context.stopping.aborted) count(context, caller, "cancelled");
    else report(context, caller, context.stopping.aborted ? stopped() : error);
    throw connectError(context.stopping.aborted ? stopped() : error);
  } finally {
    if (!ended) count(context, caller, "cancelled");
    out.close();
    free();
  }
}

/** What a handler sends, one message at a time to whoever asks for the next. */
class HandedOver implements Outgoing<DescMessage> {
  readonly #schema: DescMessage;
  readonly #held: Answer[] = [];
  #closed = false;
  #wakeReader: (() => void) | undefined;
  #writers: (() => void)[] = [];

  constructor(schema: DescMessage) {
    this.#schema = schema;
  }

  async send(message: MessageInitShape<DescMessage>): Promise<void> {
    if (this.#closed) throw new MosaicError("aborted", "the client has gone");
    this.#held.push(message);
    this.#wakeReader?.();
    await new Promise<void>((resolve) => this.#writers.push(resolve));
  }

  sendBytes(bytes: Uint8Array): Promise<void> {
    return this.send(decode(this.#schema, bytes) as MessageShape<DescMessage>);
  }

  async sendFrames(framed: Uint8Array): Promise<void> {
    for (const message of messagesOf(framed)) await this.sendBytes(message);
  }

  /** Undefined when there is no more. */
  async next(): Promise<Answer | undefined> {
    while (this.#held.length === 0) {
      if (this.#closed) return undefined;
      this.#wakeWriters();
      await new Promise<void>((resolve) => this.#wakeReader = resolve);
    }
    return this.#held.shift();
  }

  close(): void {
    this.#closed = true;
    this.#wakeReader?.();
    this.#wakeWriters();
  }

  #wakeWriters(): void {
    for (const wake of this.#writers.splice(0)) wake();
  }
}

/** Messages of the library's stream as handlers take them. */
class Taken implements Incoming<unknown> {
  readonly #messages: AsyncIterator<unknown>;
  readonly #admit: (message: unknown) => unknown;
  readonly #interruption = new Interruption();

  constructor(messages: AsyncIterable<unknown>, admit: (message: unknown) => unknown, signal: AbortSignal) {
    this.#messages = messages[Symbol.asyncIterator]();
    this.#admit = admit;
    const gone = () => this.interrupt(new MosaicError("aborted", "the client has gone"));
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  }

  async take(): Promise<unknown[]> {
    const taken = await this.#interruption.wait(this.#messages.next());
    return taken.done ? [] : [this.#admit(taken.value)];
  }

  interrupt(error: MosaicError): void {
    this.#interruption.interrupt(error);
  }
}
