/**
 * Server-sent events from an async generator. The next event is requested only when the connection
 * has accepted the previous ones, so a slow reader costs the memory of one event. It ends when the
 * reader leaves or the page stops.
 */
import { boundReached } from "../../base/load_limits.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { firstOf, pause } from "../../wire/http/waiting.ts";

export interface ServerEvent {
  event: string;
  data?: unknown;
  /** Instead of `data`: JSON text on one line. */
  json?: string;
  /** The browser returns it as Last-Event-ID; events without one do not change it. */
  id?: string | number;
}

const encoder = new TextEncoder();

/**
 * One event in the framing of the HTML standard. JSON has no line breaks, so one data line always
 * suffices.
 */
function encodeEvent({ event, data, json, id }: ServerEvent): string {
  if (/[\r\n]/.test(event) || (id !== undefined && /[\r\n\0]/.test(String(id)))) {
    throw new MosaicError("internal", "a line break in the name or id of a server-sent event");
  }
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${
    json ?? JSON.stringify(data)
  }\n\n`;
}

/**
 * What cannot be sent is named and passed over: a browser that connects again would be sent it for
 * ever.
 */
function encodedOrSkipped(event: ServerEvent): string {
  try {
    return encodeEvent(event);
  } catch (error) {
    const data = { event: event.event.slice(0, 100), why: messageOf(error).slice(0, 500) };
    return encodeEvent({
      event: "skipped",
      data,
      ...(typeof event.id === "number" ? { id: event.id } : {}),
    });
  }
}

export class EventStreams {
  readonly #max: number;
  readonly #open = new Set<AbortController>();
  #stopped = false;

  constructor(max: number) {
    this.#max = max;
  }

  /** @throws `resource_exhausted` if too many streams are open. */
  respond(produce: (signal: AbortSignal) => AsyncGenerator<ServerEvent>): Response {
    return this.#respond(
      produce,
      (event) => encoder.encode(encodedOrSkipped(event)),
      "text/event-stream",
    );
  }

  /** The same for bytes. */
  respondBytes(produce: (signal: AbortSignal) => AsyncGenerator<Uint8Array>): Response {
    return this.#respond(produce, (bytes) => bytes, "application/octet-stream");
  }

  #respond<T>(
    produce: (signal: AbortSignal) => AsyncGenerator<T>,
    encode: (one: T) => Uint8Array,
    type: string,
  ): Response {
    if (this.#stopped) throw new MosaicError("unavailable", "the daemon is stopping");
    if (this.#open.size >= this.#max) {
      const what = `${this.#open.size} live connections of the page are open`;
      throw boundReached("maxPageStreams", this.#max, what, "Close other tabs");
    }
    const controller = new AbortController();
    this.#open.add(controller);
    const events = produce(controller.signal);
    const end = () => {
      controller.abort();
      this.#open.delete(controller);
    };
    const body = new ReadableStream<Uint8Array>({
      async pull(stream) {
        try {
          const next = await events.next();
          if (next.done) {
            end();
            stream.close();
          } else stream.enqueue(encode(next.value));
        } catch (error) {
          end();
          stream.error(error);
        }
      },
      async cancel() {
        end();
        await events.return(undefined);
      },
    }, { highWaterMark: 1 });
    return new Response(body, { headers: { "content-type": type, "cache-control": "no-store" } });
  }

  /** Ends every stream; later ones are refused. */
  stop(): void {
    this.#stopped = true;
    for (const controller of this.#open) controller.abort();
  }
}

/** Waits `ms`, or until `wake` settles, or the signal aborts. */
export function waitFor(
  ms: number,
  signal: AbortSignal,
  wake?: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  return firstOf(signal, (s) => pause(ms, s), ...(wake === undefined ? [] : [wake]));
}
