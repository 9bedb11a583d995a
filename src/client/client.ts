/**
 * The typed client of the CLI, the proxy, tests and benches. Errors are MosaicErrors with the daemon's code, message and
 * hint. `close()` ends everything it holds, so that the process can end.
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
import { type ChannelCredentials, Client, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { Buffer } from "node:buffer";
import { channelCredentials, type TlsFiles } from "../auth/listeners.ts";
import { messageOf, MosaicError } from "../errors.ts";
import { asBuffer, methodPath } from "../rpc/definition.ts";
import { errorFromStatus } from "../rpc/status.ts";
import { Inbound } from "./inbound.ts";
import { missingNet } from "../permissions/missing.ts";
import type { TargetOptions } from "./entrance.ts";
import { notRunning, resolveEntrance } from "./target.ts";

const MAX_MESSAGE_BYTES = 64 << 20;
const DEADLINE_MS = 10_000;

/** Sent again after an answer that may have been lost, these would do their work twice. */
const NOT_REPEATED = new Set(["SubmitRun", "RetryRun", "ResetRun", "Shutdown"]);

export interface ClientOptions {
  /** Sent as `authorization: Bearer …`. */
  token?: string;
  /** Connections are plain without it. */
  tls?: Partial<TlsFiles>;
  /** Instead of `tls`, made already. */
  credentials?: ChannelCredentials;
  /** The name in the server's certificate, where the target is an IP address. */
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
export interface Duplex<I extends DescMessage, O extends DescMessage> extends AsyncIterable<MessageShape<O>> {
  send(message: MessageInitShape<I>): void;
  /** Nothing more will be sent. */
  end(): void;
  cancel(): void;
}

/** A stream to the daemon with one answer. */
export interface Upload<I extends DescMessage, O extends DescMessage> {
  /** Resolves when the runtime has taken the message. */
  send(message: MessageInitShape<I>): Promise<void>;
  end(): void;
  cancel(): void;
  readonly answer: Promise<MessageShape<O>>;
}

/** @throws MosaicError `unavailable` when no daemon is known; whether it answers shows at the first call. */
export function connect(options: TargetOptions & { deadlineMs?: number } = {}): MosaicClient {
  const { target, ...entrance } = resolveEntrance(options);
  return new MosaicClient(target, { ...entrance, deadlineMs: options.deadlineMs, stateDir: options.stateDir });
}

export class MosaicClient {
  readonly target: string;
  readonly #options: ClientOptions;
  #channel: Client | undefined;
  readonly #retired = new Set<Client>();

  constructor(target: string, options: ClientOptions = {}) {
    this.target = target;
    this.#options = options;
  }

  /**
   * One request, one answer. A call that runs out of its deadline is made once more on a new connection (a connection
   * may stop delivering for good), unless doing it twice could do harm.
   */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: UnaryOptions = {},
  ): Promise<MessageShape<O>> {
    try {
      return await this.#unaryOnce(method, request, options);
    } catch (error) {
      if ((error as MosaicError).code !== "deadline_exceeded" || NOT_REPEATED.has(method.name)) throw error;
      this.#retire();
      return await this.#unaryOnce(method, request, options);
    }
  }

  #unaryOnce<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: UnaryOptions,
  ): Promise<MessageShape<O>> {
    return new Promise((resolve, reject) => {
      const deadlineMs = options.deadlineMs ?? this.#options.deadlineMs ?? DEADLINE_MS;
      const bytes = asBuffer(toBinary(method.input, create(method.input, request)));
      const cancel = () => call.cancel();
      const call = this.#client().makeUnaryRequest(
        methodPath(method),
        same,
        same,
        bytes,
        this.#metadata(options.metadata),
        { deadline: Date.now() + deadlineMs },
        (error: ServiceError | null, answer?: Buffer) => {
          options.signal?.removeEventListener("abort", cancel);
          if (error !== null) return reject(this.#error(error, method, deadlineMs));
          try {
            resolve(fromBinary(method.output, answer!));
          } catch (broken) {
            reject(errorFromStatus(broken));
          }
        },
      );
      if (options.signal?.aborted) cancel();
      else options.signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  /**
   * The daemon's messages, taken as fast as the consumer asks for them. Leaving the loop cancels the call; aborting the
   * signal ends the loop without an error.
   */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
    options: StreamOptions = {},
  ): AsyncGenerator<MessageShape<O>, void> {
    if (signal?.aborted) return;
    const call = this.#client().makeServerStreamRequest(
      methodPath(method),
      same,
      same,
      asBuffer(toBinary(method.input, create(method.input, request))),
      this.#metadata(options.metadata),
    );
    const cancel = () => call.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      for await (const bytes of new Inbound(call)) yield fromBinary(method.output, bytes);
    } catch (error) {
      if (!signal?.aborted) throw this.#error(error, method);
    } finally {
      signal?.removeEventListener("abort", cancel);
      call.cancel();
    }
  }

  duplex<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>,
    options: StreamOptions = {},
  ): Duplex<I, O> {
    const call = this.#client().makeBidiStreamRequest(methodPath(method), same, same, this.#metadata(options.metadata));
    const inbound = new Inbound(call);
    const asError = (error: unknown) => this.#error(error, method);
    return {
      send: (message) => void call.write(asBuffer(toBinary(method.input, create(method.input, message)))),
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
    const call = this.#client().makeClientStreamRequest(
      methodPath(method),
      same,
      same,
      this.#metadata(options.metadata),
      (error: ServiceError | null, bytes?: Buffer) =>
        error === null ? resolve(fromBinary(method.output, bytes!)) : reject(this.#error(error, method)),
    );
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
    this.#channel?.close();
    this.#channel = undefined;
    for (const client of this.#retired) client.close();
    this.#retired.clear();
  }

  #client(): Client {
    return this.#channel ??= new Client(
      this.target,
      this.#options.credentials ?? channelCredentials(this.#options.tls),
      {
        "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
        "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
        // Without this, clients in one process share connections, and a new client would get the one that is stuck.
        "grpc.use_local_subchannel_pool": 1,
        // A proxy for HTTP is no way to a daemon.
        "grpc.enable_http_proxy": 0,
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        ...(this.#options.serverName === undefined
          ? {}
          : { "grpc.ssl_target_name_override": this.#options.serverName }),
      },
    );
  }

  /** The next call gets a new connection; streams on the old one go on until `close`. */
  #retire(): void {
    if (this.#channel !== undefined) this.#retired.add(this.#channel);
    this.#channel = undefined;
  }

  #metadata(extra: Record<string, string> = {}): Metadata {
    const metadata = new Metadata();
    if (this.#options.token !== undefined) metadata.set("authorization", `Bearer ${this.#options.token}`);
    for (const [key, value] of Object.entries(extra)) metadata.set(key, value);
    return metadata;
  }

  #error(error: unknown, method: DescMethod, deadlineMs?: number): MosaicError {
    const failure = error as Partial<ServiceError>;
    if (failure?.code === status.UNAVAILABLE && NOT_CONNECTED.test(failure.details ?? "")) {
      const refused = missingNet(this.target);
      if (refused !== undefined) return refused;
      return notRunning(`no daemon answers at ${this.target}`, this.#options.stateDir, error);
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

/** What grpc-js says when it never reached a server or lost it. */
const NOT_CONNECTED =
  /No connection established|ECONNREFUSED|ECONNRESET|ENOENT|Connection dropped|Name resolution failed/;

const same = (bytes: Buffer) => bytes;
