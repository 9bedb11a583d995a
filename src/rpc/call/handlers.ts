/** Services as plain functions of typed messages, independent of the protocol. */
import type { DescMessage, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import type { Peer } from "./peer.ts";
import type { Principal } from "../auth/gatekeeper.ts";

/** A call and its caller, for the handler. */
export interface Caller {
  /** `/package.Service/Method`. */
  path: string;
  /** A header of the call; undefined if it has none of that name. */
  header(name: string): string | undefined;
  peer: Peer;
  principal: Principal;
  /** Its principal was determined. */
  entered: boolean;
  /** The run that its messages name, or that it created. */
  run?: string;
  /** Aborted when the client has left, its deadline has passed, or the server stops. */
  signal: AbortSignal;
  /**
   * Counts the call as a stream of this run. @throws MosaicError `resource_exhausted` if the run
   * has too many
   */
  follows(runId: string): void;
}

/** Messages from the client, in order; received only on demand. */
export interface Incoming<T> {
  /**
   * All waiting messages (at least one), oldest first; empty when the client has ended. Their
   * fields of bytes are valid until the next `take`. @throws MosaicError if the call broke.
   */
  take(): Promise<T[]>;
  /** Makes `take` throw this from now on. */
  interrupt(error: Error): void;
}

/** Messages to the client. */
export interface Outgoing<I extends DescMessage> {
  /**
   * Writes one message. Await the result before the next one: that bounds memory. @throws
   * MosaicError `aborted` if the client has left; StalledError
   */
  send(message: MessageInitShape<I>): Promise<void> | undefined;
  /** The same for an already encoded message. */
  sendBytes(bytes: Uint8Array): Promise<void> | undefined;
  /**
   * The same for any number of encoded messages with their frames (src/wire/message_frames.ts).
   * Only on a stream that sends nothing else.
   */
  sendFrames(framed: Uint8Array): Promise<void>;
}

/** The client has closed its connection or cancelled the call. */
export function clientDisconnected(cause?: unknown): MosaicError {
  return new MosaicError("aborted", "the client has disconnected", { cause });
}

/** The reader read nothing for too long; its stream is reset so that waiting data is dropped. */
export class StalledError extends MosaicError {
  constructor(stallMs: number) {
    super(
      "unavailable",
      `the reader read nothing for ${stallMs / 1000} s, so the stream was ended`,
      {
        hint: "Open it again with since_seq set to the last seq that arrived.",
      },
    );
  }
}

type Awaitable<T> = T | Promise<T>;
type HandlerOf<M> = M extends {
  methodKind: infer Kind;
  input: infer I extends DescMessage;
  output: infer O extends DescMessage;
}
  ? Kind extends "unary"
    ? (request: MessageShape<I>, caller: Caller) => Awaitable<MessageInitShape<O>>
  : Kind extends "server_streaming"
    ? (request: MessageShape<I>, out: Outgoing<O>, caller: Caller) => Promise<void>
  : Kind extends "client_streaming"
    ? (incoming: Incoming<MessageShape<I>>, caller: Caller) => Promise<MessageInitShape<O>>
  : (incoming: Incoming<MessageShape<I>>, out: Outgoing<O>, caller: Caller) => Promise<void>
  : never;

/** One function per method of the service. */
export type Handlers<S extends DescService> = {
  [K in keyof S["method"]]: HandlerOf<S["method"][K]>;
};

/** Untyped view of a handler, for the adapters. */
export type AnyHandler = (...args: unknown[]) => unknown;

export function handlerOf<S extends DescService>(
  handlers: Handlers<S>,
  localName: string,
): AnyHandler {
  return (handlers as Record<string, AnyHandler>)[localName]!.bind(handlers) as AnyHandler;
}
