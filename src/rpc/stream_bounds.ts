/**
 * How many streams may be open: over all, on one connection, on one run. Proxies have a count of their own, and so have
 * streams that nobody needs a credential for: strangers take no place from those who have one.
 */
import { boundReached, type Bounds } from "../base/load_limits.ts";
import { MosaicError } from "../base/errors.ts";

export type StreamLimits = Pick<Bounds, "maxStreams" | "maxStreamsPerConnection" | "maxStreamsPerRun">;

/** Streams without a credential: more than a load balancer's probes need, from one address and over all. */
export const OPEN_STREAMS = { ofAddress: 32, all: 512 } as const;

/** A stream's place in the counts. */
export interface StreamPlace {
  /** @throws MosaicError `resource_exhausted` when as many streams follow the run as may. */
  follows(runId: string): void;
  /** The stream is over. */
  leave(): void;
}

export class StreamBounds {
  readonly #limits: StreamLimits;
  #open = 0;
  readonly #ofConnection = new Map<string, number>();
  readonly #ofRun = new Map<string, number>();
  #strangers = 0;
  readonly #ofAddress = new Map<string, number>();

  constructor(limits: StreamLimits) {
    this.#limits = limits;
  }

  /**
   * @param peer the connection's other end
   * @throws MosaicError `resource_exhausted`
   */
  open(peer: string): StreamPlace {
    const { maxStreams, maxStreamsPerConnection } = this.#limits;
    if (this.#open >= maxStreams) {
      throw boundReached("maxStreams", maxStreams, `${this.#open} streams are open`, "Close some");
    }
    const here = this.#ofConnection.get(peer) ?? 0;
    // Unix sockets tell nobody apart.
    if (here >= maxStreamsPerConnection && peer !== UNKNOWN_PEER) {
      throw boundReached(
        "maxStreamsPerConnection",
        maxStreamsPerConnection,
        `${here} streams are open on this connection`,
        "Close some",
      );
    }
    this.#open++;
    this.#ofConnection.set(peer, here + 1);
    return this.#place(() => {
      this.#open--;
      less(this.#ofConnection, peer);
    });
  }

  /**
   * A place for a stream that anybody may open who can connect.
   *
   * @throws MosaicError `resource_exhausted`
   */
  openToAnybody(peer: string): StreamPlace {
    const address = addressOf(peer);
    const here = this.#ofAddress.get(address) ?? 0;
    const { ofAddress, all } = OPEN_STREAMS;
    if (this.#strangers >= all) throw tooManyOpen(`${this.#strangers} health streams are open; the limit is ${all}`);
    if (here >= ofAddress && peer !== UNKNOWN_PEER) {
      throw tooManyOpen(`${here} health streams are open from ${address}; the limit is ${ofAddress} of one address`);
    }
    this.#strangers++;
    this.#ofAddress.set(address, here + 1);
    return this.#place(() => {
      this.#strangers--;
      less(this.#ofAddress, address);
    });
  }

  #place(left: () => void): StreamPlace {
    const { maxStreamsPerRun } = this.#limits;
    const runs: string[] = [];
    return {
      follows: (runId) => {
        const there = this.#ofRun.get(runId) ?? 0;
        if (there >= maxStreamsPerRun) {
          throw boundReached(
            "maxStreamsPerRun",
            maxStreamsPerRun,
            `${there} streams follow run ${runId}`,
            "Close some",
          );
        }
        this.#ofRun.set(runId, there + 1);
        runs.push(runId);
      },
      leave: () => {
        left();
        for (const runId of runs) less(this.#ofRun, runId);
      },
    };
  }
}

/** What grpc-js calls the other end of a Unix socket. */
const UNKNOWN_PEER = "unknown";

/** Whoever opens many connections is still one. */
function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, "");
}

function tooManyOpen(what: string): MosaicError {
  return new MosaicError("resource_exhausted", what, { hint: "Close some, or ask with Check instead of Watch." });
}

function less(counts: Map<string, number>, key: string): void {
  const left = counts.get(key)! - 1;
  if (left === 0) counts.delete(key);
  else counts.set(key, left);
}
