/**
 * A client's connections: the one for new calls, and retired ones until their last call has ended.
 */
import type { Client } from "@grpc/grpc-js";

/** The part of grpc-js's calls that is used here: the event of their end. */
interface Call {
  once(event: "status", listener: () => void): unknown;
}

export class Channels {
  readonly #connect: () => Client;
  #current: Client | undefined;
  /** Number of calls on each open connection. */
  readonly #calls = new Map<Client, number>();

  constructor(connect: () => Client) {
    this.#connect = connect;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#calls.size;
  }

  /** The connection for a new call. */
  current(): Client {
    if (this.#current === undefined) {
      this.#current = this.#connect();
      this.#calls.set(this.#current, 0);
    }
    return this.#current;
  }

  open<C extends Call>(channel: Client, begin: (channel: Client) => C): C {
    this.#calls.set(channel, (this.#calls.get(channel) ?? 0) + 1);
    const call = begin(channel);
    call.once("status", () => {
      const left = this.#calls.get(channel);
      if (left === undefined) return;
      this.#calls.set(channel, left - 1);
      this.#closeIfDone(channel);
    });
    return call;
  }

  /** The next call gets a new connection; calls on this one continue. */
  retire(channel: Client): void {
    if (this.#current === channel) this.#current = undefined;
    this.#closeIfDone(channel);
  }

  close(): void {
    this.#current = undefined;
    for (const channel of this.#calls.keys()) channel.close();
    this.#calls.clear();
  }

  #closeIfDone(channel: Client): void {
    if (channel === this.#current || this.#calls.get(channel) !== 0) return;
    this.#calls.delete(channel);
    channel.close();
  }
}
