/**
 * Calls with messages in envelopes: Connect's streams, which mosaic's own clients and proxies use,
 * and all calls of gRPC-Web. Binary messages of a stream are passed on unchanged, many in one
 * write.
 */
import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { envelope, MAX_MESSAGE_BYTES } from "../../wire/http/connect.ts";
import { messagesOf } from "../../wire/message_frames.ts";
import { type CallContext, isIngest, ServerCall } from "../call/calls.ts";
import type { Peer } from "../call/peer.ts";
import {
  type AnyHandler,
  clientDisconnected,
  type Outgoing,
  StalledError,
} from "../call/handlers.ts";
import { Interruption } from "../call/interruption.ts";
import { AnswerBody } from "./body.ts";
import { timeoutOf } from "./deadline.ts";
import { EnvelopedIncoming } from "./envelopes.ts";
import { BINARY, type Coding, type EnvelopedForm } from "./forms.ts";

/** Bytes of one write; between two of them other streams run. */
const WRITE_BYTES = 1 << 16;

export interface StreamOptions {
  /** How long a client may read nothing, milliseconds. */
  stallMs: number;
}

/** A call over HTTP. */
export interface HttpCall extends StreamOptions {
  context: CallContext;
  method: DescMethod;
  handler: AnyHandler;
  request: Request;
  peer: Peer;
}

/** Bounds on a proxy's first message: its size, and the time until it has arrived. */
const HELLO_BYTES = 64 << 10;
const HELLO_MS = 15_000;

export function answerStream(call: HttpCall, form: EnvelopedForm, coding: Coding): Response {
  const { context, request } = call;
  const serverCall = new ServerCall(context, {
    ...call,
    header: (name) => request.headers.get(name) ?? undefined,
  });
  const body = new AnswerBody(() => serverCall.end(), call.stallMs);
  run(call, serverCall, form, coding, body);
  return new Response(body.stream, { headers: { "content-type": form.type } });
}

async function run(
  { context, method, handler, request }: HttpCall,
  serverCall: ServerCall,
  { timeout, end }: EnvelopedForm,
  coding: Coding,
  body: AnswerBody,
): Promise<void> {
  const { caller } = serverCall;
  const interruption = new Interruption();
  caller.signal.addEventListener("abort", () => {
    interruption.interrupt(clientDisconnected());
  });
  // A proxy is unknown until its hello is admitted: until then it gets little memory and time.
  let most = isIngest(method) ? HELLO_BYTES : context.maxMessageBytes;
  const cancelHelloDeadline = serverCall.endWithin(
    isIngest(method) ? HELLO_MS : undefined,
    `no hello came within ${HELLO_MS / 1000} s`,
  );
  const incoming = new EnvelopedIncoming(
    request.body,
    () => most,
    (bytes) => {
      const message = serverCall.message(bytes, coding.decode);
      cancelHelloDeadline();
      if (isIngest(method)) most = MAX_MESSAGE_BYTES;
      return message;
    },
    caller.signal,
  );
  let release: (() => void) | undefined;
  let thrown: unknown;
  try {
    serverCall.endWithin(timeoutOf(timeout, caller.header(timeout)));
    serverCall.enter();
    const { methodKind, output } = method;
    const input = methodKind === "client_streaming" || methodKind === "bidi_streaming"
      ? incoming
      : await onlyMessage(method, incoming);
    if (methodKind === "client_streaming" || methodKind === "unary") {
      const answering = Promise.resolve(handler(input, caller));
      // A handler of a stream is awaited in any case: it uses views of the messages, and its next
      // `take` throws. A handler of a single message may go on for long, so the wait for it is
      // interrupted.
      const answer = await (input === incoming ? answering : interruption.wait(answering));
      const bytes = coding.encode(output, answer as MessageInitShape<DescMessage>);
      release = context.streams.holdAnswer(caller.peer.name, bytes.length);
      body.write(envelope(bytes))?.catch(() => {});
    } else {
      await handler(input, new StreamOutgoing(body, output, coding), caller);
    }
  } catch (error) {
    thrown = error;
  }
  const error = serverCall.streamEnded(thrown);
  if (error instanceof StalledError) body.reset(error);
  else await body.end(end(error));
  release?.();
  serverCall.free();
  await incoming.close();
}

async function onlyMessage(
  method: DescMethod,
  incoming: EnvelopedIncoming<unknown>,
): Promise<unknown> {
  const messages = await incoming.take();
  if (messages.length === 1) return messages[0];
  throw new MosaicError(
    "invalid_argument",
    `${method.name} needs one message; ${messages.length} arrived`,
  );
}

class StreamOutgoing implements Outgoing<DescMessage> {
  readonly #body: AnswerBody;
  readonly #schema: DescMessage;
  readonly #coding: Coding;

  constructor(body: AnswerBody, schema: DescMessage, coding: Coding) {
    this.#body = body;
    this.#schema = schema;
    this.#coding = coding;
  }

  send(message: MessageInitShape<DescMessage>): Promise<void> | undefined {
    return this.#body.write(envelope(this.#coding.encode(this.#schema, message)));
  }

  sendBytes(bytes: Uint8Array): Promise<void> | undefined {
    return this.#body.write(envelope(this.#coding.ofBinary(this.#schema, bytes)));
  }

  async sendFrames(framed: Uint8Array): Promise<void> {
    if (this.#coding !== BINARY) {
      for (const message of messagesOf(framed)) await this.sendBytes(message);
      return;
    }
    for (let at = 0; at < framed.length; at += WRITE_BYTES) {
      await this.#body.write(framed.subarray(at, at + WRITE_BYTES));
    }
  }
}
