/** The interface between the proxy and the connection that carries its messages. */
import type { DaemonMessage } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { ProxyMessageInit } from "../../wire/ingest_protocol.ts";
import type { IngestStream } from "./ingest_stream.ts";

/**
 * One connection at a time. A `Receiver` gets the results of a call, and none of a closed
 * connection.
 */
export interface Transport {
  connect(target: string): void;
  send(message: ProxyMessageInit): void;
  close(): void;
}

export interface Receiver {
  /** Messages may be sent. */
  connected(): void;
  received(message: DaemonMessage["message"]): void;
  /** The connection cannot be opened, or has ended. */
  disconnected(error: unknown): void;
}

/**
 * Connections by the ingest stream, a new one each time: a connection that has stopped delivering
 * never recovers.
 */
export class StreamTransport implements Transport {
  readonly #open: (target: string) => IngestStream;
  readonly #receiver: Receiver;
  /** The current connection; without a stream if none could be opened. */
  #connection: { stream?: IngestStream } | undefined;

  constructor(open: (target: string) => IngestStream, receiver: Receiver) {
    this.#open = open;
    this.#receiver = receiver;
  }

  connect(target: string): void {
    this.close();
    this.#run(this.#connection = {}, target);
  }

  async #run(connection: { stream?: IngestStream }, target: string): Promise<void> {
    let error: unknown;
    try {
      const stream = connection.stream = this.#open(target);
      this.#receiver.connected();
      for await (const { message } of stream) {
        if (this.#connection !== connection) return;
        this.#receiver.received(message);
      }
      error = new Error("the daemon has ended the stream");
    } catch (thrown) {
      error = thrown;
    }
    if (this.#connection === connection) this.#receiver.disconnected(error);
  }

  send(message: ProxyMessageInit): void {
    const connection = this.#connection;
    try {
      connection?.stream?.send({ message });
    } catch (error) {
      if (this.#connection === connection) this.#receiver.disconnected(error);
    }
  }

  close(): void {
    const stream = this.#connection?.stream;
    this.#connection = undefined;
    stream?.cancel();
  }
}
