/**
 * The typed client of the CLI, tests and benches, by the Connect protocol. Errors are MosaicErrors
 * with the daemon's code, message and hint. `close()` ends its calls and connections, so that the
 * process can end.
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { joinedBytes } from "../../base/text/joined_bytes.ts";
import { explainMissing } from "../../permissions/missing.ts";
import { errorOfAnswer, MAX_MESSAGE_BYTES, UNARY_TYPE } from "../http/connect.ts";
import { atDeadline } from "../deadlines.ts";
import { dial, type DialOptions, tlsFailure, usesTls } from "../address/dial.ts";
import { type Http1Answer, Http1Connection } from "../http/http1.ts";
import { methodPath } from "../method_path.ts";
import { parseTarget } from "../address/target.ts";
import type { TargetOptions } from "./dial_options.ts";
import { notRunning, resolveDialOptions } from "./target.ts";

const DEADLINE_MS = 10_000;

/**
 * Calls that are not repeated after a lost answer, because a repetition would have its effect
 * twice.
 */
const NOT_REPEATED = new Set(["SubmitRun", "RetryRun", "ResetRun", "Shutdown"]);

export interface ClientOptions extends Omit<DialOptions, "target"> {
  /** For unary calls; 10 s by default. */
  deadlineMs?: number | undefined;
  /** Only for the hint of how to start a daemon. */
  stateDir?: string | undefined;
}

export interface UnaryOptions {
  deadlineMs?: number;
  signal?: AbortSignal;
}

/**
 * @throws MosaicError `unavailable` if no daemon is known; only the first call shows whether it
 * answers.
 */
export function connect(options: TargetOptions & { deadlineMs?: number } = {}): MosaicClient {
  const { deadlineMs, stateDir } = options;
  const { target, ...dialOptions } = resolveDialOptions(options);
  return new MosaicClient(target, { ...dialOptions, deadlineMs, stateDir });
}

export class MosaicClient {
  readonly target: string;
  readonly #options: ClientOptions;
  readonly #dialOptions: DialOptions;
  readonly #host: string;
  /** A connection without a call; at most one is kept. */
  #idle: Http1Connection | undefined;
  readonly #open = new Set<Http1Connection>();
  readonly #closed = new AbortController();

  /** @throws MosaicError `invalid_argument` for an invalid target. */
  constructor(target: string, options: ClientOptions = {}) {
    this.target = target;
    this.#options = options;
    this.#dialOptions = { ...options, target };
    const { address } = parseTarget(target);
    this.#host = address.type === "unix"
      ? "localhost"
      : `${options.serverName ?? address.host}:${address.port}`;
  }

  /**
   * One request, one answer. If the connection breaks or the deadline passes (a connection may stop
   * delivering for good), the call is repeated once on a new connection, unless it is one of
   * NOT_REPEATED.
   */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: UnaryOptions = {},
  ): Promise<MessageShape<O>> {
    const body = toBinary(method.input, create(method.input, request));
    for (let first = true;; first = false) {
      const call = new Call(
        options.deadlineMs ?? this.#options.deadlineMs ?? DEADLINE_MS,
        options.signal,
        this.#closed.signal,
      );
      try {
        return fromBinary(method.output, await this.#post(method, body, call));
      } catch (error) {
        const again = first && (call.timedOut || call.brokeOff) && !NOT_REPEATED.has(method.name);
        if (!again) throw this.#error(error, call, method);
      } finally {
        call.end();
      }
    }
  }

  async #post(method: DescMethod, body: Uint8Array, call: Call): Promise<Uint8Array> {
    const connection = this.#takeIdle() ?? await this.#connect(call);
    call.connected = true;
    call.onAbort(() => this.#drop(connection));
    const { token } = this.#options;
    try {
      const { status, headers, body: answer } = await connection.post({
        path: methodPath(method),
        host: this.#host,
        headers: [
          ["content-type", UNARY_TYPE],
          ["connect-protocol-version", "1"],
          ["connect-timeout-ms", String(Math.ceil(call.deadlineMs!))],
          ...(token === undefined ? [] : [["authorization", `Bearer ${token}`] as const]),
        ],
        body,
      });
      call.answered = true;
      const bytes = await readAll(answer, headers);
      if (status !== 200) {
        throw errorOfAnswer(status, bytes, (name) => headers.get(name), this.target);
      }
      return bytes;
    } finally {
      if (connection.idle && this.#idle === undefined) this.#idle = connection;
      else this.#drop(connection);
    }
  }

  /**
   * The daemon's messages, read as fast as the consumer asks for them. Leaving the loop cancels the
   * call; aborting the signal ends the loop without an error.
   */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
  ): AsyncGenerator<MessageShape<O>, void> {
    if (signal?.aborted) return;
    const message = toBinary(method.input, create(method.input, request));
    // Loaded here, because most commands open no stream.
    const { StreamCall } = await import("./socket_stream.ts");
    const call = new Call(undefined, signal, this.#closed.signal);
    const stream = new StreamCall(method, this.#dialOptions);
    call.onAbort(() => stream.cancel());
    try {
      stream.send(message);
      stream.end();
      for await (const bytes of stream.messages()) yield fromBinary(method.output, bytes);
    } catch (error) {
      call.connected = stream.connected;
      call.answered = stream.answered;
      if (!signal?.aborted) throw this.#error(error, call, method);
    } finally {
      call.end();
      stream.cancel();
    }
  }

  close(): void {
    this.#closed.abort();
    this.#idle = undefined;
    for (const connection of this.#open) connection.close();
    this.#open.clear();
  }

  #takeIdle(): Http1Connection | undefined {
    const connection = this.#idle;
    this.#idle = undefined;
    if (connection === undefined || connection.idle) return connection;
    this.#drop(connection);
  }

  async #connect(call: Call): Promise<Http1Connection> {
    const connection = new Http1Connection(await dial(this.#dialOptions, "http/1.1", call.signal));
    this.#open.add(connection);
    return connection;
  }

  #drop(connection: Http1Connection): void {
    connection.close();
    this.#open.delete(connection);
  }

  #error(error: unknown, call: Call, method: DescMethod): MosaicError {
    if (call.timedOut) {
      return new MosaicError(
        "deadline_exceeded",
        `${method.name}: the daemon at ${this.target} did not answer within ${
          call.deadlineMs! / 1000
        } s`,
        { hint: "It may be overloaded or stopped; try again.", cause: messageOf(error) },
      );
    }
    if (call.signal.aborted) return new MosaicError("aborted", "the call was cancelled");
    const explained = explainMissing(error);
    if (explained instanceof MosaicError) return explained;
    const tls = usesTls(this.#dialOptions) ? tlsFailure(this.target, error) : undefined;
    if (tls !== undefined) return tls;
    if (!call.connected) {
      return notRunning(`no daemon answers at ${this.target}`, this.#options.stateDir, error);
    }
    // For example an answer that cannot be decoded.
    if (!isBreak(error)) return new MosaicError("internal", messageOf(error), { cause: error });
    const what = call.answered
      ? "broke off in the middle of its answer"
      : "broke off before it answered";
    const other = this.target.startsWith("unix:")
      ? ""
      : " The API is at the daemon's --http address, not at that of --listen; with TLS it is named https://HOST:PORT.";
    return new MosaicError("unavailable", `the daemon at ${this.target} ${what}`, {
      hint: `It may be stopping; try again.${other}`,
      cause: error,
    });
  }
}

/** One call: its progress, its deadline, and the signals that end it. */
class Call {
  readonly deadlineMs: number | undefined;
  readonly #controller = new AbortController();
  readonly #cancelDeadline: (() => void) | undefined;
  readonly #outer: AbortSignal[];
  readonly #abort = () => this.#controller.abort();
  timedOut = false;
  connected = false;
  answered = false;

  constructor(deadlineMs: number | undefined, ...outer: (AbortSignal | undefined)[]) {
    this.deadlineMs = deadlineMs;
    this.#outer = outer.filter((signal) => signal !== undefined);
    for (const signal of this.#outer) {
      if (signal.aborted) this.#abort();
      else signal.addEventListener("abort", this.#abort, { once: true });
    }
    if (deadlineMs === undefined) return;
    this.#cancelDeadline = atDeadline(deadlineMs, () => {
      this.timedOut = true;
      this.#abort();
    });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The connection was made, and broke before any answer. */
  get brokeOff(): boolean {
    return this.connected && !this.answered && !this.signal.aborted;
  }

  onAbort(act: () => void): void {
    if (this.signal.aborted) act();
    else this.signal.addEventListener("abort", act, { once: true });
  }

  end(): void {
    this.#cancelDeadline?.();
    for (const signal of this.#outer) signal.removeEventListener("abort", this.#abort);
  }
}

/**
 * The whole body of an answer. @throws MosaicError `resource_exhausted` if it is larger than a
 * message may be
 */
async function readAll(
  body: Http1Answer["body"],
  headers: Http1Answer["headers"],
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > MAX_MESSAGE_BYTES) {
      throw new MosaicError(
        "resource_exhausted",
        `the answer has ${headers.get("content-length") ?? `${length} and more`} bytes`,
      );
    }
    chunks.push(chunk.slice());
  }
  return joinedBytes(chunks);
}

/** Whether the connection failed, in contrast to an error in the answer. */
function isBreak(error: unknown): boolean {
  return typeof (error as { code?: unknown }).code === "string" ||
    Object.values(Deno.errors).some((kind) => error instanceof kind);
}
