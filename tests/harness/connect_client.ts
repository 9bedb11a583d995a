/** The API as clients in other languages use it: by Connect's own library, with both protocols. */
import type {
  DescMessage,
  DescMethodBiDiStreaming,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { Buffer } from "node:buffer";
import { Code, ConnectError, type Transport } from "npm:@connectrpc/connect@2.2.0";
import { createFetchClient } from "npm:@connectrpc/connect@2.2.0/protocol";
import { createTransport as createConnect } from "npm:@connectrpc/connect@2.2.0/protocol-connect";
import { createTransport as createGrpcWeb } from "npm:@connectrpc/connect@2.2.0/protocol-grpc-web";
import { type ErrorCode, MosaicError } from "../../src/base/errors.ts";
import { errorOf, HINT_TRAILER, RETRY_TRAILER } from "../../src/wire/status_codes.ts";
import type { Duplex, StreamOptions, UnaryOptions, Upload } from "./grpc_client.ts";

export interface ConnectClientOptions {
  /** Path of a Unix socket, instead of the address in `url`. */
  socket?: string;
  /** The authority of the server's certificate, PEM. */
  ca?: string;
  token?: string;
  protocol?: "connect" | "grpc-web";
  /** Messages as JSON. */
  json?: boolean;
}

export class ConnectClient {
  readonly #http: Deno.HttpClient;
  readonly #transport: Transport;
  readonly #token: string | undefined;
  readonly #closed = new AbortController();

  /** @param url such as `http://127.0.0.1:8055` */
  constructor(
    url: string,
    { socket, ca, token, protocol = "connect", json = false }: ConnectClientOptions = {},
  ) {
    this.#token = token;
    this.#http = Deno.createHttpClient({
      http1: false,
      http2: true,
      ...(socket === undefined ? {} : { proxy: { transport: "unix" as const, path: socket } }),
      ...(ca === undefined ? {} : { caCerts: [ca] }),
    });
    const client = this.#http;
    const options = {
      baseUrl: url,
      httpClient: createFetchClient((request: RequestInfo | URL) =>
        fetch(request, { client } as RequestInit)
      ),
      useBinaryFormat: !json,
      interceptors: [],
      acceptCompression: [],
      sendCompression: null,
      compressMinBytes: 1024,
      readMaxBytes: 64 << 20,
      writeMaxBytes: 0xffff_ffff,
    };
    this.#transport = protocol === "connect" ? createConnect(options) : createGrpcWeb(options);
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    { signal, deadlineMs, metadata }: UnaryOptions = {},
  ): Promise<MessageShape<O>> {
    try {
      const signals = AbortSignal.any([this.#closed.signal, ...(signal ? [signal] : [])]);
      return (await this.#transport.unary(
        method,
        signals,
        deadlineMs,
        this.#header(metadata),
        request,
      )).message;
    } catch (error) {
      throw mosaicError(error);
    }
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
    options: StreamOptions = {},
  ): AsyncGenerator<MessageShape<O>, void> {
    if (signal?.aborted) return;
    const leave = new AbortController();
    const outer = AbortSignal.any([leave.signal, ...(signal ? [signal] : [])]);
    try {
      yield* this.#streamed(method, one(request), outer, options);
    } catch (error) {
      if (!signal?.aborted) throw error;
    } finally {
      leave.abort();
    }
  }

  duplex<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>,
    options: StreamOptions = {},
  ): Duplex<I, O> {
    const input = new Queue<MessageInitShape<I>>();
    const leave = new AbortController();
    const answers = this.#streamed(method, input, leave.signal, options);
    // The call begins with its first message, not with the first read of an answer.
    const first = answers.next();
    first.catch(() => {});
    return {
      send: (message) => input.push(message),
      end: () => input.end(),
      cancel: () => leave.abort(),
      async *[Symbol.asyncIterator]() {
        try {
          const { done, value } = await first;
          if (done) return;
          yield value;
          yield* answers;
        } finally {
          leave.abort();
        }
      },
    };
  }

  upload<I extends DescMessage, O extends DescMessage>(
    method: DescMethodClientStreaming<I, O>,
    options: StreamOptions = {},
  ): Upload<I, O> {
    const input = new Queue<MessageInitShape<I>>();
    const leave = new AbortController();
    const answer = this.#streamed(method, input, leave.signal, options).next().then(({ value }) =>
      value as MessageShape<O>
    );
    answer.catch(() => {});
    return {
      send: (message) => Promise.resolve(input.push(message)),
      end: () => input.end(),
      cancel: () => leave.abort(),
      answer,
    };
  }

  close(): void {
    this.#closed.abort();
    this.#http.close();
  }

  async *#streamed<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    input: AsyncIterable<MessageInitShape<I>>,
    signal: AbortSignal,
    { metadata }: StreamOptions,
  ): AsyncGenerator<MessageShape<O>, void> {
    try {
      const signals = AbortSignal.any([signal, this.#closed.signal]);
      yield* (await this.#transport.stream(
        method,
        signals,
        undefined,
        this.#header(metadata),
        input,
      )).message;
    } catch (error) {
      throw mosaicError(error);
    }
  }

  #header(metadata: Record<string, string> = {}): HeadersInit {
    return this.#token === undefined
      ? metadata
      : { ...metadata, authorization: `Bearer ${this.#token}` };
  }
}

function mosaicError(error: unknown): MosaicError {
  const { code, rawMessage, metadata } = ConnectError.from(error);
  const hint = metadata.get(HINT_TRAILER);
  const name = Code[code].replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
  return errorOf((name === "canceled" ? "aborted" : name) as ErrorCode, rawMessage, {
    hint: hint === null ? undefined : Buffer.from(hint, "base64").toString(),
    ...(metadata.has(RETRY_TRAILER) ? { retryAfterMs: metadata.get(RETRY_TRAILER)! } : {}),
    cause: error,
  });
}

async function* one<T>(value: T): AsyncGenerator<T> {
  yield value;
}

class Queue<T> implements AsyncIterable<T> {
  readonly #held: T[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(value: T): void {
    this.#held.push(value);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      while (this.#held.length > 0) yield this.#held.shift()!;
      if (this.#ended) return;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}
