/**
 * Calls with messages in envelopes: Connect's streams, which mosaic's own clients and proxies use, and all calls of
 * gRPC-Web. Binary messages are passed as they are, many records in a chunk.
 */
import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { envelope } from "../../wire/connect.ts";
import { messagesOf } from "../../wire/message_frames.ts";
import { arrivalOf, type CallContext, count, isProxys, MAX_MESSAGE_BYTES, type Peer, report } from "../calls.ts";
import { requestOf, stopped } from "../calls.ts";
import { type AnyHandler, type Outgoing, StalledError } from "../handlers.ts";
import { AnswerBody } from "./body.ts";
import { startDeadline } from "./deadline.ts";
import { EnvelopedIncoming } from "./envelopes.ts";
import { BINARY, type Coding, type EnvelopedForm } from "./forms.ts";

/** Between two such chunks other streams have their turn. */
const WRITE_BYTES = 1 << 16;

export interface StreamOptions {
  /** How long a client may read nothing, milliseconds. */
  stallMs: number;
}

/** Bound on a proxy's first message, and on the time until it has arrived. */
const HELLO_BYTES = 64 << 10;
const HELLO_MS = 15_000;

export function answerStream(
  context: CallContext,
  method: DescMethod,
  handler: AnyHandler,
  request: Request,
  peer: Peer,
  form: EnvelopedForm,
  { stallMs }: StreamOptions,
): Response {
  const gone = new AbortController();
  const body = new AnswerBody(() => gone.abort(), stallMs);
  run(context, method, handler, request, peer, form, body, gone);
  return new Response(body.stream, { headers: { "content-type": form.type } });
}

async function run(
  context: CallContext,
  method: DescMethod,
  handler: AnyHandler,
  request: Request,
  peer: Peer,
  { coding, timeout, end }: EnvelopedForm,
  body: AnswerBody,
  gone: AbortController,
): Promise<void> {
  const { signal } = gone;
  const abort = () => gone.abort();
  context.stopping.addEventListener("abort", abort, { once: true });
  if (context.stopping.aborted) abort();
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const { caller, enter, free } = arrivalOf(context, { method, peer, header, signal });
  let deadline: MosaicError | undefined;
  // Until its hello is admitted, a proxy is a stranger: it gets little memory, and little time.
  let most = isProxys(method) ? HELLO_BYTES : context.maxMessageBytes;
  const helloTimer = isProxys(method)
    ? setTimeout(() => {
      deadline = new MosaicError("deadline_exceeded", `no hello came within ${HELLO_MS / 1000} s`);
      gone.abort();
    }, HELLO_MS)
    : undefined;
  const incoming = new EnvelopedIncoming(
    request.body,
    () => most,
    (bytes) => {
      const message = requestOf(context, method, bytes, caller, coding.decode);
      clearTimeout(helloTimer);
      if (isProxys(method)) most = MAX_MESSAGE_BYTES;
      return message;
    },
    signal,
  );
  let endDeadline: (() => void) | undefined;
  let held: (() => void) | undefined;
  try {
    endDeadline = startDeadline(timeout, header(timeout), (error) => {
      deadline = error;
      gone.abort();
    });
    enter();
    const out = new StreamOutgoing(body, method.output, coding);
    const clientStreams = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
    const input = clientStreams ? incoming : await only(method, incoming);
    if (method.methodKind === "client_streaming" || method.methodKind === "unary") {
      const bytes = coding.encode(method.output, await handler(input, caller) as MessageInitShape<DescMessage>);
      held = context.streams.holdAnswer(peer.name, bytes.length);
      body.write(envelope(bytes))?.catch(() => {});
    } else await handler(input, out, caller);
    if (context.stopping.aborted) throw stopped();
    if (deadline !== undefined) throw deadline;
    count(context, caller, signal.aborted ? "cancelled" : "ok");
    await body.end(end());
  } catch (error) {
    const why = context.stopping.aborted ? stopped() : deadline ?? error;
    if (why === error && signal.aborted) count(context, caller, "cancelled");
    else report(context, caller, why);
    if (why instanceof StalledError) body.reset(why);
    else await body.end(end(why));
  } finally {
    clearTimeout(helloTimer);
    endDeadline?.();
    context.stopping.removeEventListener("abort", abort);
    held?.();
    free();
    await incoming.close();
  }
}

async function only(method: DescMethod, incoming: EnvelopedIncoming<unknown>): Promise<unknown> {
  const messages = await incoming.take();
  if (messages.length === 1) return messages[0];
  throw new MosaicError("invalid_argument", `${method.name} takes one message; ${messages.length} came`);
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
