/** What the daemon says to a proxy unasked. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../base/errors.ts";
import type { ProxyLink } from "../dispatch/core/core.ts";
import type { DaemonMessageSchema, ProxyMessage } from "../gen/mosaic/v1/ingest_pb.ts";
import type { Incoming, Outgoing } from "./handlers.ts";

export type ToProxy = Outgoing<typeof DaemonMessageSchema>;
type Message = NonNullable<Exclude<MessageInitShape<typeof DaemonMessageSchema>, { $typeName: string }>["message"]>;

/** Sends without waiting for the gate, so small and rare messages only. A proxy that has gone asks again when it is back. */
export function tell(out: ToProxy, message: Message): void {
  try {
    out.send({ message })?.catch(() => {});
  } catch {
    // Gone.
  }
}

/** What the engine may say to the proxy at any time, and how it ends the stream. */
export class StreamLink implements ProxyLink {
  readonly #incoming: Incoming<ProxyMessage>;
  readonly #out: ToProxy;

  constructor(incoming: Incoming<ProxyMessage>, out: ToProxy) {
    this.#incoming = incoming;
    this.#out = out;
  }

  control(desired: { paused: boolean; maxRateHz: number }): void {
    tell(this.#out, { case: "control", value: { ...desired, selfPaused: "" } });
  }

  stop(graceSeconds: number): void {
    tell(this.#out, { case: "stop", value: { graceSeconds } });
  }

  accompanied(shared: boolean): void {
    tell(this.#out, { case: "observed", value: { cursors: [], shared, others: true } });
  }

  close(reason: string): void {
    this.#incoming.interrupt(new MosaicError("aborted", reason));
  }
}
