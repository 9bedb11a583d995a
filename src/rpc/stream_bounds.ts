/** How many streams may be open: over all, on one connection, on one run. Proxies have a count of their own. */
import { boundReached, type Bounds } from "../base/load_limits.ts";

export type StreamLimits = Pick<Bounds, "maxStreams" | "maxStreamsPerConnection" | "maxStreamsPerRun">;

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

  constructor(limits: StreamLimits) {
    this.#limits = limits;
  }

  /**
   * @param peer the connection's other end
   * @throws MosaicError `resource_exhausted`
   */
  open(peer: string): StreamPlace {
    const { maxStreams, maxStreamsPerConnection, maxStreamsPerRun } = this.#limits;
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
        this.#open--;
        less(this.#ofConnection, peer);
        for (const runId of runs) less(this.#ofRun, runId);
      },
    };
  }
}

/** What grpc-js calls the other end of a Unix socket. */
const UNKNOWN_PEER = "unknown";

function less(counts: Map<string, number>, key: string): void {
  const left = counts.get(key)! - 1;
  if (left === 0) counts.delete(key);
  else counts.set(key, left);
}
