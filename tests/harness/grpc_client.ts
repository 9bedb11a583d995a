/**
 * A client by gRPC, for what the daemon serves on --listen: the original's service, health and
 * reflection. Errors are MosaicErrors with the daemon's code, message and hint.
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodBiDiStreaming,
  type DescMethodClientStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  Client,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import type { Buffer } from "node:buffer";
import type { TlsFiles } from "../../src/wire/address/tls.ts";
import { channelCredentials } from "./grpc_credentials.ts";
import { messageOf, MosaicError } from "../../src/base/errors.ts";
import { asBuffer } from "../../src/wire/definition.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { errorFromStatus } from "./grpc_errors.ts";
import { Channels } from "./grpc_channels.ts";
import { noticeEndedConnections } from "../../src/observability/otlp/ended_connections.ts";
import { Inbound } from "./grpc_inbound.ts";
import { missingNet } from "../../src/permissions/missing.ts";
import { notRunning } from "../../src/wire/client/target.ts";

const MAX_MESSAGE_BYTES = 64 << 20;
const DEADLINE_MS = 10_000;

/** Calls that must not be repeated after a lost answer, because they would do their work twice. */
const NOT_REPEATED = new Set(["SubmitRun", "RetryRun", "ResetRun", "Shutdown"]);

export interface GrpcClientOptions {
  /** Sent as `authorization: Bearer …`. */
  token?: string;
  /** Connections are plain without it. */
  tls?: Partial<TlsFiles>;
  /** Used instead of `tls`. */
  credentials?: ChannelCredentials;
  /** The name in the server's certificate, if the target is an IP address. */
  serverName?: string;
  /** For unary calls; 10 s by default. */
  deadlineMs?: number;
  /** Only for the hint of how to start a daemon. */
  stateDir?: string;
}

export interface UnaryOptions {
  deadlineMs?: number;
  signal?: AbortSignal;
  metadata?: Record<string, string>;
}

export interface StreamOptions {
  metadata?: Record<string, string>;
}

/** Both directions of a stream. */
export interface Duplex<I extends DescMessage, O extends DescMessage>
  extends AsyncIterable<MessageShape<O>> {
  send(message: MessageInitShape<I>): void;
  /** Nothing more will be sent. */
  end(): void;
  cancel(): void;
}

/** A stream to the daemon with one answer. */
export interface Upload<I extends DescMessage, O extends DescMessage> {
  /** Resolves when the runtime has accepted the message. */
  send(message: MessageInitShape<I>): Promise<void>;
  end(): void;
  cancel(): void;
  readonly answer: Promise<MessageShape<O>>;
}

export class GrpcClient {
  readonly target: string;
  readonly #options: GrpcClientOptions;
  readonly #channels = new Channels(() => this.#connect());

  constructor(target: string, options: GrpcClientOptions = {}) {
    this.target = target;
    this.#options = options;
  }

  /**
   * One request, one answer. A call that exceeds its deadline is made once more on a new connection
   * (a connection may stop delivering for good), unless doing it twice could do harm; a call that
   * did not begin is always made again.
   */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: UnaryOptions = {},
  ): Promise<MessageShape<O>> {
    const deadlineMs = options.deadlineMs ?? this.#options.deadlineMs ?? DEADLINE_MS;
    for (let first = true;; first = false) {
      const channel = this.#channels.current();
      try {
        return await this.#unaryOnce(channel, method, request, { ...options, deadlineMs });
      } catch (error) {
        const ranOut = (error as Partial<ServiceError>).code === status.DEADLINE_EXCEEDED;
        if (ranOut) this.#channels.retire(channel);
        const failure = this.#error(error, method, channel, deadlineMs);
        if (!first || !(neverBegan(error) || (ranOut && !NOT_REPEATED.has(method.name)))) {
          throw failure;
        }
      }
    }
  }

  #unaryOnce<I extends DescMessage, O extends DescMessage>(
    channel: Client,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    { deadlineMs, signal, metadata }: UnaryOptions & { deadlineMs: number },
  ): Promise<MessageShape<O>> {
    return new Promise((resolve, reject) => {
      const bytes = asBuffer(toBinary(method.input, create(method.input, request)));
      const cancel = () => call.cancel();
      const call = this.#channels.open(channel, (client) =>
        client.makeUnaryRequest(
          methodPath(method),
          same,
          same,
          bytes,
          this.#metadata(metadata),
          { deadline: Date.now() + deadlineMs },
          (error: ServiceError | null, answer?: Buffer) => {
            signal?.removeEventListener("abort", cancel);
            if (error !== null) return reject(error);
            try {
              resolve(fromBinary(method.output, answer!));
            } catch (broken) {
              reject(broken);
            }
          },
        ));
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  /**
   * The daemon's messages, read as fast as the consumer asks for them. Leaving the loop cancels the
   * call; aborting the signal ends the loop without an error.
   */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
    options: StreamOptions = {},
  ): AsyncGenerator<MessageShape<O>, void> {
    if (signal?.aborted) return;
    const channel = this.#channels.current();
    const call = this.#channels.open(channel, (client) =>
      client.makeServerStreamRequest(
        methodPath(method),
        same,
        same,
        asBuffer(toBinary(method.input, create(method.input, request))),
        this.#metadata(options.metadata),
      ));
    const cancel = () => call.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      for await (const bytes of new Inbound(call)) yield fromBinary(method.output, bytes);
    } catch (error) {
      if (!signal?.aborted) throw this.#error(error, method, channel);
    } finally {
      signal?.removeEventListener("abort", cancel);
      call.cancel();
    }
  }

  duplex<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>,
    options: StreamOptions = {},
  ): Duplex<I, O> {
    const channel = this.#channels.current();
    const call = this.#channels.open(
      channel,
      (client) =>
        client.makeBidiStreamRequest(
          methodPath(method),
          same,
          same,
          this.#metadata(options.metadata),
        ),
    );
    const inbound = new Inbound(call);
    const asError = (error: unknown) => this.#error(error, method, channel);
    return {
      send: (message) =>
        void call.write(asBuffer(toBinary(method.input, create(method.input, message)))),
      end: () => call.end(),
      cancel: () => call.cancel(),
      async *[Symbol.asyncIterator]() {
        try {
          for await (const bytes of inbound) yield fromBinary(method.output, bytes);
        } catch (error) {
          throw asError(error);
        }
      },
    };
  }

  upload<I extends DescMessage, O extends DescMessage>(
    method: DescMethodClientStreaming<I, O>,
    options: StreamOptions = {},
  ): Upload<I, O> {
    let resolve!: (answer: MessageShape<O>) => void;
    let reject!: (error: MosaicError) => void;
    const answer = new Promise<MessageShape<O>>((yes, no) => [resolve, reject] = [yes, no]);
    const channel = this.#channels.current();
    const call = this.#channels.open(channel, (client) =>
      client.makeClientStreamRequest(
        methodPath(method),
        same,
        same,
        this.#metadata(options.metadata),
        (error: ServiceError | null, bytes?: Buffer) =>
          error === null
            ? resolve(fromBinary(method.output, bytes!))
            : reject(this.#error(error, method, channel)),
      ));
    return {
      send: (message) =>
        new Promise((done) => {
          call.write(asBuffer(toBinary(method.input, create(method.input, message))), () => done());
        }),
      end: () => call.end(),
      cancel: () => call.cancel(),
      answer,
    };
  }

  close(): void {
    this.#channels.close();
  }

  #connect(): Client {
    noticeEndedConnections();
    return new Client(
      this.target,
      this.#options.credentials ?? channelCredentials(this.#options.tls),
      {
        "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
        "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
        // Without this, clients in one process share connections, and a new client would get the
        // one that is stuck.
        "grpc.use_local_subchannel_pool": 1,
        // A daemon is not reached through an HTTP proxy.
        "grpc.enable_http_proxy": 0,
        // grpc-js would begin calls again without bound or pause; here a call that did not begin is
        // made once more.
        "grpc.enable_retries": 0,
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        ...(this.#options.serverName === undefined
          ? {}
          : { "grpc.ssl_target_name_override": this.#options.serverName }),
      },
    );
  }

  #metadata(extra: Record<string, string> = {}): Metadata {
    const metadata = new Metadata();
    if (this.#options.token !== undefined) {
      metadata.set("authorization", `Bearer ${this.#options.token}`);
    }
    for (const [key, value] of Object.entries(extra)) metadata.set(key, value);
    return metadata;
  }

  #error(error: unknown, method: DescMethod, channel: Client, deadlineMs?: number): MosaicError {
    const failure = error as Partial<ServiceError>;
    if (neverBegan(error)) {
      // No call will begin on this connection any more, although grpc-js may still consider it
      // good.
      this.#channels.retire(channel);
      return new MosaicError(
        "unavailable",
        `the daemon at ${this.target} broke off before the call began`,
        {
          hint: "It may be stopping; try again.",
          cause: error,
        },
      );
    }
    if (failure?.code === status.UNAVAILABLE && NOT_CONNECTED.test(failure.details ?? "")) {
      const refused = missingNet(this.target);
      if (refused !== undefined) return refused;
      return notRunning(
        `no daemon answers at ${this.target}: ${failure.details}`,
        this.#options.stateDir,
        error,
      );
    }
    if (failure?.code === status.DEADLINE_EXCEEDED && deadlineMs !== undefined) {
      return new MosaicError(
        "deadline_exceeded",
        `${method.name}: the daemon at ${this.target} did not answer within ${deadlineMs / 1000} s`,
        { hint: "It may be overloaded or stopped; try again.", cause: messageOf(error) },
      );
    }
    return errorFromStatus(error);
  }
}

/** grpc-js's messages if it never reached a server or lost it. */
const NOT_CONNECTED =
  /No connection established|ECONNREFUSED|ECONNRESET|ENOENT|Connection dropped|Name resolution failed/;

/** grpc-js's messages for a call that the server has not seen, or has refused unprocessed. */
const NEVER_BEGAN = /^Failed to start HTTP\/2 stream|^Stream refused by server/;

function neverBegan(error: unknown): boolean {
  return NEVER_BEGAN.test((error as Partial<ServiceError>)?.details ?? "");
}

const same = (bytes: Buffer) => bytes;
