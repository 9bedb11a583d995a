/**
 * Bounds on open streams: in total, per connection, per run. Streams that need no credential are
 * counted separately, so that strangers cannot use up the places of authorized clients; proxies are
 * not counted here. Also bounds unread answers.
 */
import { boundReached, type Bounds } from "../../base/load_limits.ts";
import { MosaicError } from "../../base/errors.ts";
import { UNIX_PEER } from "./peer.ts";

export type StreamLimits = Pick<
  Bounds,
  "maxStreams" | "maxStreamsPerConnection" | "maxStreamsPerRun"
>;

/** Bounds on streams that need no credential: more than a load balancer's probes need. */
export const OPEN_STREAMS = { ofAddress: 32, all: 512 } as const;

/**
 * Factor for streams of ended runs. The original's GUI keeps two streams of each run that it has
 * ever listed; idle ones cost little, and must not use up the places of live runs.
 */
const MORE_OF_ENDED = 10;
/**
 * Least time between two checks of all streams for ended runs: a client may be refused many times a
 * second.
 */
const CHECK_INTERVAL_MS = 1000;
/** Bounds on the bytes of unread answers. A single answer is never refused. */
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

/** Counts in total and per key. */
class KeyedCounts {
  readonly #of = new Map<string, number>();
  all = 0;

  of(key: string): number {
    return this.#of.get(key) ?? 0;
  }

  add(key: string, count = 1): void {
    this.all += count;
    const sum = this.of(key) + count;
    if (sum === 0) this.#of.delete(key);
    else this.#of.set(key, sum);
  }
}

export class StreamBounds {
  readonly #limits: StreamLimits;
  readonly #isOver: (runId: string) => boolean;
  /**
   * Streams that count against the limits. When a limit is reached, those of ended runs are moved
   * to `#endedOf`.
   */
  readonly #open = new Set<OpenStream>();
  readonly #openOf = new KeyedCounts();
  readonly #endedOf = new KeyedCounts();
  #checkedAt = -CHECK_INTERVAL_MS;
  readonly #ofRun = new KeyedCounts();
  /** Streams that need no credential, by address. */
  readonly #strangers = new KeyedCounts();
  readonly #answerBytes = new KeyedCounts();

  /** @param isOver whether the run has ended or is deleted */
  constructor(limits: StreamLimits, isOver: (runId: string) => boolean) {
    this.#limits = limits;
    this.#isOver = isOver;
  }

  /**
   * Counts a stream. @param peer name of the connection's peer @throws MosaicError
   * `resource_exhausted`
   */
  open(peer: string): StreamPlace {
    const { maxStreams, maxStreamsPerConnection } = this.#limits;
    const connectionFull = () =>
      this.#openOf.of(peer) >= maxStreamsPerConnection && peer !== UNIX_PEER;
    if (this.#open.size >= maxStreams || connectionFull()) this.#moveEnded();
    if (this.#open.size >= maxStreams) {
      throw boundReached(
        "maxStreams",
        maxStreams,
        `${this.#open.size} streams are open`,
        "Close some",
      );
    }
    if (connectionFull()) {
      const what = `${this.#openOf.of(peer)} streams are open on this connection`;
      throw boundReached("maxStreamsPerConnection", maxStreamsPerConnection, what, "Close some");
    }
    const stream: OpenStream = { peer, runId: undefined };
    this.#open.add(stream);
    this.#openOf.add(peer);
    return this.#place(
      stream,
      () => (this.#open.delete(stream) ? this.#openOf : this.#endedOf).add(peer, -1),
    );
  }

  #moveEnded(): void {
    const now = performance.now();
    if (now - this.#checkedAt < CHECK_INTERVAL_MS) return;
    this.#checkedAt = now;
    const { maxStreams, maxStreamsPerConnection } = this.#limits;
    for (const stream of this.#open) {
      const { peer, runId } = stream;
      if (runId === undefined || !this.#isOver(runId)) continue;
      if (this.#endedOf.all >= MORE_OF_ENDED * maxStreams) return;
      if (this.#endedOf.of(peer) >= MORE_OF_ENDED * maxStreamsPerConnection) continue;
      this.#open.delete(stream);
      this.#openOf.add(peer, -1);
      this.#endedOf.add(peer);
    }
  }

  /** Counts a stream that needs no credential. @throws MosaicError `resource_exhausted` */
  openToAnybody(peer: string): StreamPlace {
    const address = addressOf(peer);
    const here = this.#strangers.of(address);
    const { ofAddress, all } = OPEN_STREAMS;
    if (this.#strangers.all >= all) {
      throw tooManyOpen(`${this.#strangers.all} health streams are open; the limit is ${all}`);
    }
    if (here >= ofAddress && address !== UNIX_PEER) {
      throw tooManyOpen(
        `${here} health streams are open from ${address}; the limit is ${ofAddress} of one address`,
      );
    }
    this.#strangers.add(address);
    return this.#place({ peer, runId: undefined }, () => this.#strangers.add(address, -1));
  }

  /**
   * Counts an answer that waits to be read. @returns a function to call when it was read or dropped
   * @throws MosaicError `resource_exhausted`
   */
  holdAnswer(peer: string, bytes: number): () => void {
    const { ofConnection, all } = WAITING_ANSWER_BYTES;
    const tooMany = (held: number, most: number) => held > 0 && held + bytes > most;
    const held = this.#answerBytes;
    if (tooMany(held.all, all) || (tooMany(held.of(peer), ofConnection) && peer !== UNIX_PEER)) {
      throw new MosaicError("resource_exhausted", `${held.all} bytes of answers wait to be read`, {
        hint: "Read the answers that you asked for before you ask for more.",
      });
    }
    held.add(peer, bytes);
    return () => held.add(peer, -bytes);
  }

  #place(stream: OpenStream, left: () => void): StreamPlace {
    const { maxStreamsPerRun } = this.#limits;
    const runs: string[] = [];
    return {
      follows: (runId) => {
        const count = this.#ofRun.of(runId);
        if (count >= maxStreamsPerRun) {
          const what = `${count} streams follow run ${runId}`;
          throw boundReached("maxStreamsPerRun", maxStreamsPerRun, what, "Close some");
        }
        this.#ofRun.add(runId);
        runs.push(runId);
        stream.runId = runId;
      },
      leave: () => {
        left();
        for (const runId of runs) this.#ofRun.add(runId, -1);
      },
    };
  }
}

/** Without the port: all connections from one address are counted together. */
function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, "");
}

function tooManyOpen(what: string): MosaicError {
  return new MosaicError("resource_exhausted", what, {
    hint: "Close some, or ask with Check instead of Watch.",
  });
}
