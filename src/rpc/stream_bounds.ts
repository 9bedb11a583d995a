/**
 * Bounds on open streams: in total, per connection, per run. Proxies are counted apart, and so are streams that need no
 * credential: strangers must not take the places of authorized clients.
 */
import { boundReached, type Bounds } from "../base/load_limits.ts";
import { MosaicError } from "../base/errors.ts";

export type StreamLimits = Pick<Bounds, "maxStreams" | "maxStreamsPerConnection" | "maxStreamsPerRun">;

/** Streams without a credential, per address and in total: more than a load balancer's probes need. */
export const OPEN_STREAMS = { ofAddress: 32, all: 512 } as const;

/**
 * Factor for streams of ended runs. The original's GUI keeps two streams of each run that it has ever listed; idle ones cost
 * little, and must not use up the places of live runs.
 */
const MORE_OF_ENDED = 10;
/** A client that is refused again and again must not make the daemon check all streams each time. */
const CHECK_INTERVAL_MS = 1000;
/** Bytes of answers that wait to be read. A single one is never refused. */
const WAITING_ANSWER_BYTES = { ofConnection: 32 << 20, all: 128 << 20 } as const;

/** A stream's place in the counts. */
export interface StreamPlace {
  /** @throws MosaicError `resource_exhausted` if too many streams follow the run. */
  follows(runId: string): void;
  /** The stream is over. */
  leave(): void;
}

interface OpenStream {
  peer: string;
  runId: string | undefined;
}

export class StreamBounds {
  readonly #limits: StreamLimits;
  readonly #isOver: (runId: string) => boolean;
  /** Streams that count against the limits; streams of ended runs are moved away when a limit is reached. */
  readonly #open = new Set<OpenStream>();
  readonly #ofConnection = new Map<string, number>();
  readonly #ended = new Set<OpenStream>();
  readonly #endedOfConnection = new Map<string, number>();
  #checkedAt = -CHECK_INTERVAL_MS;
  readonly #ofRun = new Map<string, number>();
  #strangers = 0;
  readonly #ofAddress = new Map<string, number>();
  #answerBytes = 0;
  readonly #answerBytesOf = new Map<string, number>();

  /** @param isOver whether the run has ended, or is deleted */
  constructor(limits: StreamLimits, isOver: (runId: string) => boolean) {
    this.#limits = limits;
    this.#isOver = isOver;
  }

  /** @param peer the connection's other end @throws MosaicError `resource_exhausted` */
  open(peer: string): StreamPlace {
    const { maxStreams, maxStreamsPerConnection } = this.#limits;
    // All peers of Unix sockets count as one.
    const hereIsFull = () => (this.#ofConnection.get(peer) ?? 0) >= maxStreamsPerConnection && peer !== UNKNOWN_PEER;
    if (this.#open.size >= maxStreams || hereIsFull()) this.#setEndedApart();
    if (this.#open.size >= maxStreams) {
      throw boundReached("maxStreams", maxStreams, `${this.#open.size} streams are open`, "Close some");
    }
    if (hereIsFull()) {
      throw boundReached(
        "maxStreamsPerConnection",
        maxStreamsPerConnection,
        `${this.#ofConnection.get(peer)} streams are open on this connection`,
        "Close some",
      );
    }
    const stream: OpenStream = { peer, runId: undefined };
    this.#open.add(stream);
    more(this.#ofConnection, peer);
    return this.#place(stream, () => {
      if (this.#open.delete(stream)) less(this.#ofConnection, peer);
      if (this.#ended.delete(stream)) less(this.#endedOfConnection, peer);
    });
  }

  #setEndedApart(): void {
    const now = performance.now();
    if (now - this.#checkedAt < CHECK_INTERVAL_MS) return;
    this.#checkedAt = now;
    const { maxStreams, maxStreamsPerConnection } = this.#limits;
    for (const stream of this.#open) {
      const { peer, runId } = stream;
      if (runId === undefined || !this.#isOver(runId)) continue;
      if (this.#ended.size >= MORE_OF_ENDED * maxStreams) return;
      if ((this.#endedOfConnection.get(peer) ?? 0) >= MORE_OF_ENDED * maxStreamsPerConnection) continue;
      this.#open.delete(stream);
      less(this.#ofConnection, peer);
      this.#ended.add(stream);
      more(this.#endedOfConnection, peer);
    }
  }

  /** A place for a stream that anybody may open. @throws MosaicError `resource_exhausted` */
  openToAnybody(peer: string): StreamPlace {
    const address = addressOf(peer);
    const here = this.#ofAddress.get(address) ?? 0;
    const { ofAddress, all } = OPEN_STREAMS;
    if (this.#strangers >= all) throw tooManyOpen(`${this.#strangers} health streams are open; the limit is ${all}`);
    if (here >= ofAddress && peer !== UNKNOWN_PEER) {
      throw tooManyOpen(`${here} health streams are open from ${address}; the limit is ${ofAddress} of one address`);
    }
    this.#strangers++;
    more(this.#ofAddress, address);
    return this.#place({ peer, runId: undefined }, () => {
      this.#strangers--;
      less(this.#ofAddress, address);
    });
  }

  /**
   * An answer waits to be read. @returns the function to call when it no longer waits @throws MosaicError
   * `resource_exhausted`
   */
  holdAnswer(peer: string, bytes: number): () => void {
    const { ofConnection, all } = WAITING_ANSWER_BYTES;
    const here = this.#answerBytesOf.get(peer) ?? 0;
    const tooMany = (held: number, most: number) => held > 0 && held + bytes > most;
    if (tooMany(this.#answerBytes, all) || (tooMany(here, ofConnection) && peer !== UNKNOWN_PEER)) {
      throw new MosaicError("resource_exhausted", `${this.#answerBytes} bytes of answers wait to be taken`, {
        hint: "Read the answers that you asked for before you ask for more.",
      });
    }
    this.#answerBytes += bytes;
    this.#answerBytesOf.set(peer, here + bytes);
    return () => {
      this.#answerBytes -= bytes;
      less(this.#answerBytesOf, peer, bytes);
    };
  }

  #place(stream: OpenStream, left: () => void): StreamPlace {
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
        more(this.#ofRun, runId);
        runs.push(runId);
        stream.runId = runId;
      },
      leave: () => {
        left();
        for (const runId of runs) less(this.#ofRun, runId);
      },
    };
  }
}

/** grpc-js's name for the peer of a Unix socket. */
const UNKNOWN_PEER = "unknown";

/** Many connections from one address count as one peer. */
function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, "");
}

function tooManyOpen(what: string): MosaicError {
  return new MosaicError("resource_exhausted", what, { hint: "Close some, or ask with Check instead of Watch." });
}

function more(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function less(counts: Map<string, number>, key: string, by = 1): void {
  const left = counts.get(key)! - by;
  if (left === 0) counts.delete(key);
  else counts.set(key, left);
}
