/** Messages to a proxy that do not answer one of its own. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import type { Company, ProxyLink } from "../../dispatch/attempt/state/connected_proxy.ts";
import type { DaemonMessageSchema, ProxyMessage } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { Incoming, Outgoing } from "../call/handlers.ts";

export type ToProxy = Outgoing<typeof DaemonMessageSchema>;
type Message = NonNullable<
  Exclude<MessageInitShape<typeof DaemonMessageSchema>, { $typeName: string }>["message"]
>;

/**
 * Sends without waiting until there is space: only for small and rare messages. A proxy that has
 * disconnected gets the current state when it connects again.
 */
export function sendWithoutWaiting(out: ToProxy, message: Message): void {
  try {
    out.send({ message })?.catch(() => {});
  } catch {
    // The proxy has disconnected.
  }
}

/** The core's access to one proxy's stream: sends messages at any time, and ends the stream. */
export class StreamLink implements ProxyLink {
  readonly #incoming: Incoming<ProxyMessage>;
  readonly #out: ToProxy;

  constructor(incoming: Incoming<ProxyMessage>, out: ToProxy) {
    this.#incoming = incoming;
    this.#out = out;
  }

  control(desired: { paused: boolean; maxRateHz: number }): void {
    sendWithoutWaiting(this.#out, { case: "control", value: { ...desired, selfPaused: "" } });
  }

  stop(graceSeconds: number): void {
    sendWithoutWaiting(this.#out, { case: "stop", value: { graceSeconds } });
  }

  saveCheckpoint(): void {
    sendWithoutWaiting(this.#out, { case: "saveCheckpoint", value: {} });
  }

  accompanied(company: Company): void {
    sendWithoutWaiting(this.#out, { case: "observed", value: { cursors: [], ...company } });
  }

  close(reason: string): void {
    this.#incoming.interrupt(new MosaicError("aborted", reason));
  }
}
