/** A connection to the daemon that a following verb may lose and take up again. */
import type {
  DescMessage,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import { pause } from "../wire/waiting.ts";
import type { Api, ConnectionFlags } from "./api.ts";
import type { Context } from "./context.ts";
import { harmless } from "./text.ts";

type Methods = typeof Mosaic.method;

export interface LinkOptions {
  /** How long (ms) a call goes on trying while the daemon is away; 0 gives up at once. */
  patienceMs?: number;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

export function isTransient(error: unknown): boolean {
  return error instanceof MosaicError && (error.code === "unavailable" || error.code === "deadline_exceeded");
}

export class Link implements Disposable {
  readonly #context: Context;
  readonly #flags: ConnectionFlags;
  readonly #patienceMs: number;
  /** What can be asked of a daemon. Their descriptions take long to load, and a verb's help needs none. */
  readonly methods: Methods;
  #api: Api;
  #told = false;

  private constructor(context: Context, flags: ConnectionFlags, methods: Methods, api: Api, options: LinkOptions) {
    this.methods = methods;
    this.#context = context;
    this.#flags = flags;
    this.#api = api;
    this.#patienceMs = options.patienceMs ?? 0;
  }

  static async open(context: Context, flags: ConnectionFlags, options: LinkOptions = {}): Promise<Link> {
    const [api, { Mosaic }] = await Promise.all([context.connect(flags), import("../gen/mosaic/v1/mosaic_pb.ts")]);
    return new Link(context, flags, Mosaic.method, api, options);
  }

  [Symbol.dispose](): void {
    this.#api.close();
  }

  /** @param deadlineMs instead of the client's own, for what takes long */
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
    const breaks = new Breaks(this.#patienceMs);
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
   * The items of a stream that can be opened again after any of them: when the connection breaks it goes on after the
   * last item seen, so none is missing and none comes twice. Ends with the daemon's stream or when `signal` aborts.
   *
   * @param behind asked when the stream has been silent for long: whether there is more after the last item. A
   * connection may stop delivering without breaking; then the stream is opened again on another.
   */
  async *resumed<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: (since: bigint) => MessageInitShape<I>,
    cursor: (item: MessageShape<O>) => bigint,
    since: bigint,
    signal: AbortSignal,
    behind?: (at: bigint) => Promise<boolean>,
  ): AsyncGenerator<MessageShape<O>> {
    const breaks = new Breaks(this.#patienceMs);
    for (let at = since; !signal.aborted;) {
      const stuck = new AbortController();
      const watchdog = behind === undefined ? undefined : new Watchdog(() => behind(at), () => stuck.abort());
      try {
        for await (const item of this.#api.stream(method, request(at), AbortSignal.any([signal, stuck.signal]))) {
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

  /** Waits and connects anew; throws `error` where that cannot help or took too long. */
  async #mend(error: unknown, breaks: Breaks, signal: AbortSignal | undefined): Promise<void> {
    if (!isTransient(error) || signal?.aborted || !breaks.mayTryAgain()) throw error;
    if (!this.#told) this.#context.err.write(`mosaic: ${harmless(messageOf(error))}; trying again\n`);
    this.#told = true;
    await pause(breaks.pauseMs(), signal);
    try {
      await this.#renew();
    } catch (connecting) {
      if (!isTransient(connecting)) throw connecting;
    }
  }

  /** Other streams on the old connection break and are taken up again likewise. */
  async #renew(): Promise<void> {
    const api = await this.#context.connect(this.#flags);
    this.#api.close();
    this.#api = api;
  }

  #back(): void {
    if (this.#told) this.#context.err.write("mosaic: the daemon answers again\n");
    this.#told = false;
  }
}

const SILENCE_MS = 15_000;

/** Looks, after each stretch of silence, whether it is one that should not be. */
class Watchdog {
  readonly #timer: ReturnType<typeof setInterval>;
  #fed = true;

  constructor(suspect: () => Promise<boolean>, onStuck: () => void) {
    this.#timer = setInterval(() => {
      // A consumer that takes its time is no silence of the stream's: it must have been silent for a whole stretch.
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

/** How long it has not worked. */
class Breaks {
  readonly #patienceMs: number;
  #since: number | undefined;
  #pauseMs = FIRST_PAUSE_MS;

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  mayTryAgain(): boolean {
    this.#since ??= performance.now();
    return performance.now() - this.#since < this.#patienceMs;
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
