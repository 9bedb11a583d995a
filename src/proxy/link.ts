import type { MessageInitShape } from "@bufbuild/protobuf";
import type { DaemonMessage, ProxyMessageSchema, Welcome } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { IngestStream } from "./ingest_stream.ts";

export type ProxyInit = NonNullable<
  Exclude<MessageInitShape<typeof ProxyMessageSchema>, { $typeName: string }>["message"]
>;

/** One connection: what came, what may be sent, and whether it still lives. */
export class Link {
  readonly #stream: IngestStream;
  readonly #deadmanMs: number;
  #received: DaemonMessage["message"][] = [];
  #heardAt = performance.now();
  /** Since when something is under way that is not answered. */
  #waitingSince: number | undefined;
  #error: unknown;
  #closed = false;
  /** Called with each message, and when the connection has ended. */
  readonly #wake: () => void;
  /** The same for who waits for the welcome. */
  #arrived: (() => void) | undefined;

  constructor(
    stream: IngestStream,
    deadmanMs: number,
    wake: () => void,
  ) {
    this.#stream = stream;
    this.#deadmanMs = deadmanMs;
    this.#wake = wake;
    this.#receive();
  }

  async #receive(): Promise<void> {
    try {
      for await (const { message } of this.#stream) {
        this.#heardAt = performance.now();
        this.#waitingSince = undefined;
        this.#received.push(message);
        this.#notify();
      }
      this.#error ??= new Error("the daemon has ended the stream");
    } catch (error) {
      this.#error ??= error;
    }
    this.#notify();
  }

  #notify(): void {
    this.#arrived?.();
    this.#wake();
  }

  send(message: ProxyInit): void {
    if (this.#closed) return;
    try {
      this.#stream.send({ message });
    } catch (error) {
      this.#error ??= error;
      this.#notify();
    }
  }

  /**
   * It waits without looking again and again: a hundred proxies that do so take the processors from the daemon they
   * wait for.
   * @throws what ended the connection, or that nothing came.
   */
  async welcome(timeoutMs: number): Promise<Welcome> {
    if (this.#received.length === 0 && this.#error === undefined) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
        timer = setTimeout(resolve, timeoutMs);
      });
      clearTimeout(timer);
      this.#arrived = undefined;
    }
    const first = this.#received.shift();
    if (first?.case === "welcome") return first.value;
    if (first !== undefined) throw new Error(`the daemon begins with "${first.case}" instead of a welcome`);
    throw this.#error ?? new Error(`no welcome within ${timeoutMs / 1000} s`);
  }

  take(): DaemonMessage["message"][] {
    if (this.#received.length === 0) return this.#received;
    const taken = this.#received;
    this.#received = [];
    return taken;
  }

  /** @throws what ended the connection, or that it does not deliver any more. */
  check(underWay: boolean): void {
    if (this.#error !== undefined && this.#received.length === 0) throw this.#error;
    const now = performance.now();
    if (!underWay) this.#waitingSince = undefined;
    else this.#waitingSince ??= now;
    if (this.#waitingSince !== undefined && now - Math.max(this.#waitingSince, this.#heardAt) > this.#deadmanMs) {
      throw new Error(`no answer for ${this.#deadmanMs / 1000} s`);
    }
  }

  close(): void {
    this.#closed = true;
    this.#stream.cancel();
  }
}
