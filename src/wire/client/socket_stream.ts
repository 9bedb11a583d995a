/**
 * A stream of the API over a connection of its own, by an HTTP/2 implementation of our own: the
 * proxy's in both directions, and streams that a command follows. HTTP/1.1 does not work: the
 * runtime's server reads no more of a request once it has begun to answer, and a silent stream
 * cannot be told from a dead connection. The runtime's own client costs each process 10 ms and 6
 * MiB to load, and over TCP and TLS it delays each message of more than a kilobyte by 40 ms (no
 * TCP_NODELAY).
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodBiDiStreaming,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { explainMissing } from "../../permissions/missing.ts";
import { envelope, errorOfAnswer, messagesOf, STREAM_TYPE } from "../http/connect.ts";
import { dial, type DialOptions, tlsFailure, usesTls } from "../address/dial.ts";
import type { Header } from "../http/hpack.ts";
import { Http2Call, type KeepAlive } from "../http/http2_call.ts";
import { methodPath } from "../method_path.ts";
import { isLoopbackTarget, parseTarget } from "../address/target.ts";

/** Larger than any error. */
const MAX_ERROR_BYTES = 1 << 16;

/**
 * A link between hosts can break without notice, and messages of the other end (that an attempt is
 * over) wait meanwhile: the system would try the old connection for up to two minutes after the
 * link is back.
 */
const BETWEEN_HOSTS: KeepAlive = { afterMs: 3000, withinMs: 5000, connectMs: 4000 };

/** Both directions. The caller must read it: reading drives the call. */
export interface SocketStream<I extends DescMessage, O extends DescMessage>
  extends AsyncIterable<MessageShape<O>> {
  send(message: MessageInitShape<I>): void;
  cancel(): void;
}

/**
 * A call whose answer is a stream of encoded messages. @throws MosaicError `invalid_argument` for
 * an invalid target or token.
 */
export class StreamCall {
  readonly #call: Http2Call;
  readonly #target: string;

  constructor(method: DescMethod, options: DialOptions) {
    const { target, token, serverName } = options;
    const { address } = parseTarget(target);
    this.#target = target;
    this.#call = new Http2Call({
      dial: (signal) => dial(options, "h2", signal),
      ...(isLoopbackTarget(target) ? {} : { keepAlive: BETWEEN_HOSTS }),
      headers: [
        [":method", "POST"],
        [":scheme", usesTls(options) ? "https" : "http"],
        [":path", methodPath(method)],
        [
          ":authority",
          address.type === "tcp" ? `${serverName ?? address.host}:${address.port}` : "localhost",
        ],
        ["content-type", STREAM_TYPE],
        ["connect-protocol-version", "1"],
        ...(token === undefined
          ? []
          : [["authorization", `Bearer ${token}`, "secret"] satisfies Header]),
      ],
    });
  }

  get cancelled(): boolean {
    return this.#call.cancelled;
  }
  get connected(): boolean {
    return this.#call.connected;
  }
  get answered(): boolean {
    return this.#call.status !== 0;
  }

  send(message: Uint8Array): void {
    this.#call.send(envelope(message));
  }
  /** Nothing more will be sent. */
  end(): void {
    this.#call.end();
  }
  cancel(): void {
    this.#call.cancel();
  }

  /** @throws MosaicError the error with which the stream ended; otherwise the connection's error */
  messages(): AsyncGenerator<Uint8Array, void> {
    return messagesOf(this.#unlessRefused());
  }

  /** The answer's bytes. @throws MosaicError its error, if it is no stream */
  async *#unlessRefused(): AsyncGenerator<Uint8Array, void> {
    const call = this.#call;
    const text: number[] = [];
    for await (const chunk of call.answer()) {
      if (call.status === 200) yield chunk;
      else if (text.length < MAX_ERROR_BYTES) text.push(...chunk);
    }
    if (call.status !== 200) {
      throw errorOfAnswer(call.status, Uint8Array.from(text), () => undefined, this.#target);
    }
  }
}

/** @throws MosaicError `invalid_argument` for an invalid target or token. */
export function socketStream<I extends DescMessage, O extends DescMessage>(
  method: DescMethodBiDiStreaming<I, O>,
  options: DialOptions,
): SocketStream<I, O> {
  const { target } = options;
  const call = new StreamCall(method, options);
  return {
    send: (message) => call.send(toBinary(method.input, create(method.input, message))),
    cancel: () => call.cancel(),
    async *[Symbol.asyncIterator](): AsyncGenerator<MessageShape<O>, void> {
      try {
        for await (const bytes of call.messages()) yield fromBinary(method.output, bytes);
      } catch (error) {
        if (call.cancelled || error instanceof MosaicError) throw error;
        const known = explainMissing(error);
        if (known instanceof MosaicError) throw known;
        throw (usesTls(options) ? tlsFailure(target, error) : undefined) ??
          new MosaicError("unavailable", `no daemon answers at ${target}: ${messageOf(error)}`, {
            cause: error,
          });
      }
    },
  };
}
