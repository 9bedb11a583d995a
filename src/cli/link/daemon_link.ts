/** A connection to the daemon that is re-established when it breaks. */
import type {
  DescMessage,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Mosaic } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { anyOf, pause } from "../../wire/http/waiting.ts";
import type { ConnectionFlags, DaemonApi } from "../../wire/client/daemon_api.ts";
import type { Context } from "./context.ts";
import { escapeControl } from "../text/text.ts";

type Methods = typeof Mosaic.method;

export interface LinkOptions {
  /** How long (ms) a call retries while the daemon is unreachable; 0: no retries. */
  retryMs?: number;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

export function isTransient(error: unknown): boolean {
  return error instanceof MosaicError &&
    (error.code === "unavailable" || error.code === "deadline_exceeded");
}

export class Link implements Disposable {
  readonly #context: Context;
  readonly #flags: ConnectionFlags;
  readonly #retryMs: number;
  /** The service's methods. Loaded on open(): loading is slow, and --help does not need them. */
  readonly methods: Methods;
  #api: DaemonApi;
  #breakReported = false;

  private constructor(
    context: Context,
    flags: ConnectionFlags,
    methods: Methods,
    api: DaemonApi,
    options: LinkOptions,
  ) {
    this.methods = methods;
    this.#context = context;
    this.#flags = flags;
    this.#api = api;
    this.#retryMs = options.retryMs ?? 0;
  }

  static async open(
    context: Context,
    flags: ConnectionFlags,
    options: LinkOptions = {},
  ): Promise<Link> {
    const [api, { Mosaic }] = await Promise.all([
      context.connect(flags),
      import("../../gen/mosaic/v1/mosaic_pb.ts"),
    ]);
    return new Link(context, flags, Mosaic.method, api, options);
  }

  [Symbol.dispose](): void {
    this.#api.close();
  }

  /** @param deadlineMs overrides the client's deadline, for slow calls */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
    deadlineMs?: number,
  ): Promise<MessageShape<O>> {
    const options = {
      ...(signal === undefined ? {} : { signal }),
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    };
    const breaks = new Breaks(this.#retryMs);
    for (;;) {
      try {
        const answer = await this.#api.unary(method, request, options);
        this.#back();
        return answer;
      } catch (error) {
        await this.#mend(error, breaks, signal);
      }
    }
  }

  /**
   * The items of a stream with a cursor. When the connection breaks, reopens the stream after the
   * last item, so that no item is lost or repeated. Ends when the daemon ends the stream or
   * `signal` aborts.
   *
   * @param behind called after a long silence: whether the daemon has more items. If so, the
   * connection is stuck without having broken, and the stream is reopened on a new one.
   */
  async *resumed<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: (since: bigint) => MessageInitShape<I>,
    cursor: (item: MessageShape<O>) => bigint,
    since: bigint,
    signal: AbortSignal,
    behind?: (at: bigint) => Promise<boolean>,
  ): AsyncGenerator<MessageShape<O>> {
    const breaks = new Breaks(this.#retryMs);
    for (let at = since; !signal.aborted;) {
      const stuck = new AbortController();
      using either = anyOf(signal, stuck.signal);
      const watchdog = behind === undefined
        ? undefined
        : new Watchdog(() => behind(at), () => stuck.abort());
      try {
        for await (const item of this.#api.stream(method, request(at), either.signal)) {
          watchdog?.feed();
          breaks.over();
          this.#back();
          at = cursor(item);
          yield item;
        }
        if (!stuck.signal.aborted) return;
        await this.#renew();
      } catch (error) {
        if (signal.aborted) return;
        await this.#mend(error, breaks, signal);
      } finally {
        watchdog?.stop();
      }
    }
  }

  /** Waits and reconnects. @throws `error` when it is not transient or the retry time is over */
  async #mend(error: unknown, breaks: Breaks, signal: AbortSignal | undefined): Promise<void> {
    if (!isTransient(error) || signal?.aborted || !breaks.mayTryAgain()) throw error;
    if (!this.#breakReported) {
      this.#context.err.write(`mosaic: ${escapeControl(messageOf(error))}; retrying\n`);
    }
    this.#breakReported = true;
    await pause(breaks.pauseMs(), signal);
    try {
      await this.#renew();
    } catch (connecting) {
      if (!isTransient(connecting)) throw connecting;
    }
  }

  /** Other streams on the old connection break and reconnect in the same way. */
  async #renew(): Promise<void> {
    const api = await this.#context.connect(this.#flags);
    this.#api.close();
    this.#api = api;
  }

  #back(): void {
    if (this.#breakReported) this.#context.err.write("mosaic: reconnected to the daemon\n");
    this.#breakReported = false;
  }
}

const SILENCE_MS = 15_000;

/** After each interval without an item, checks whether the stream is stuck. */
class Watchdog {
  readonly #timer: ReturnType<typeof setInterval>;
  #fed = true;

  constructor(suspect: () => Promise<boolean>, onStuck: () => void) {
    this.#timer = setInterval(() => {
      // A slow consumer is not a silent stream: require a whole interval without an item.
      const fed = this.#fed;
      this.#fed = false;
      if (fed) return;
      suspect().then((stuck) => {
        if (stuck && !this.#fed) onStuck();
      }, () => {});
    }, SILENCE_MS);
  }

  feed(): void {
    this.#fed = true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Time since the connection broke, and the delay before the next retry. */
class Breaks {
  readonly #retryMs: number;
  #since: number | undefined;
  #pauseMs = FIRST_PAUSE_MS;

  constructor(retryMs: number) {
    this.#retryMs = retryMs;
  }

  mayTryAgain(): boolean {
    this.#since ??= performance.now();
    return performance.now() - this.#since < this.#retryMs;
  }

  pauseMs(): number {
    const pause = this.#pauseMs;
    this.#pauseMs = Math.min(pause * 2, LONGEST_PAUSE_MS);
    return pause;
  }

  over(): void {
    this.#since = undefined;
    this.#pauseMs = FIRST_PAUSE_MS;
  }
}
