/**
 * One connected proxy's messages, taken in order. A batch begins to be stored when it comes, in one commit with those that
 * came shortly before; it is acknowledged when it is committed, and in its order. All else waits for what came before it.
 */
import type { Core, ProxySession } from "../dispatch/core/core.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Batch, FilePiece, ProxyMessage, SourceBatch } from "../gen/mosaic/v1/ingest_pb.ts";
import type { ConnectedProxy } from "../observability/activity.ts";
import type { ChunkAnswer } from "../registry/artifacts/take_uploads.ts";
import type { IngestBatch } from "../telemetry/ingest_batch.ts";
import { unreadableBatch } from "../telemetry/refused.ts";
import { isDiskFull } from "../telemetry/store/failures.ts";
import { InOrder } from "./in_order.ts";
import { batchOf, chunkOf, exitOf, sourceBatchOf } from "./ingest_messages.ts";
import { tell, type ToProxy } from "./proxy_link.ts";
import { windowOf } from "./proxy_window.ts";
import { turn } from "./turns.ts";
import { untilStored } from "./until_stored.ts";

/** Journal bytes of one proxy that wait for a commit: beyond, its next message waits, too, so that runs have equal turns. */
const WAITING_BYTES = 16 << 10;

/** While a chunk of a file is taken, which may mean to read all of it, its proxy hears something so often. */
const ALIVE_MS = 3000;

interface ProxyStreamParts {
  core: Core;
  runId: string;
  session: ProxySession;
  /** What is known of the proxy's journal; kept up to date here. */
  connected: ConnectedProxy;
  out: ToProxy;
  /** The most that one proxy may have under way. */
  windowBytes: number;
  /** Aborted when the proxy has gone or the daemon stops. */
  signal: AbortSignal;
  /** A block of sealed steps is not right: the run's proxies are to send none. */
  onBadBlock: () => void;
  /** A batch cannot be stored: the stream ends. */
  onFailure: (failure: Error) => void;
}

export class ProxyStream {
  readonly #parts: ProxyStreamParts;
  readonly #batches: InOrder;
  /** A batch waits for free space on the store's disk, and the proxy holds its worker until the acknowledgement. */
  #storeFull = false;

  constructor(parts: ProxyStreamParts) {
    this.#parts = parts;
    this.#batches = new InOrder(parts.onFailure);
  }

  /** All batches so far are stored and acknowledged. @throws why they are not */
  async settled(): Promise<void> {
    this.#parts.session.commit();
    await this.#batches.finished();
  }

  async take(message: ProxyMessage["message"]): Promise<void> {
    this.#batches.check();
    const { session, connected, out } = this.#parts;
    switch (message.case) {
      case "batch":
        return await this.#batch(message.value);
      case "heartbeat":
        connected.journalSize = Number(message.value.journalSize);
        session.heartbeat(connected.journalSize);
        await out.send({ message: { case: "heartbeatAck", value: {} } });
        return;
      case "filePiece":
        return await this.#file(message.value);
      case "sourceBatch":
        return await this.#source(message.value);
      case "workerStarted": {
        const { pid, identity } = message.value;
        return session.workerStarted({ pid: Number(pid), identity });
      }
      case "control":
        await this.settled();
        return await this.#stored(() => session.controlApplied(message.value));
      case "exit":
        await this.settled();
        await this.#stored(() => session.exit(exitOf(message.value)));
        await out.send({ message: { case: "exitAck", value: {} } });
        return;
      case "hello":
        throw new MosaicError("failed_precondition", "a second hello: a proxy sends one, at the beginning");
      case undefined:
        // From a newer proxy of the same major version; what it means is not needed here.
        return;
    }
  }

  async #batch(message: Batch): Promise<void> {
    const { session, connected } = this.#parts;
    const arrived = performance.now();
    const journalSize = Number(message.journalSize);
    connected.journalSize = journalSize;
    await turn();
    const batch = this.#read(message);
    const samples = { malformed: message.malformedSamples, violations: message.violationSamples };
    const store = async () => {
      try {
        return await session.batch(batch, journalSize, samples);
      } catch (error) {
        this.#storeFull = error instanceof MosaicError && isDiskFull(error);
        throw error;
      }
    };
    const early = unlessUnavailable(store());
    // It is awaited when the batches before this one are finished.
    early.catch(() => {});
    this.#batches.add(batch.to - batch.from, () => this.#finish(batch, early, store, arrived));
    if (this.#batches.bytes > WAITING_BYTES) await this.#batches.finished();
  }

  /**
   * All batches before this one are stored and acknowledged.
   * @param early where the journal was stored up to when it was tried at once; undefined: nothing could be stored then
   */
  async #finish(
    batch: IngestBatch,
    early: Promise<number | undefined>,
    store: () => Promise<number>,
    arrived: number,
  ): Promise<void> {
    const { core, session, connected, out, windowBytes } = this.#parts;
    let position = await early;
    // One before it was not stored then, and is now.
    const wasAhead = position !== undefined && position < batch.from && connected.position === batch.from;
    if (position === undefined || wasAhead) position = await this.#stored(store);
    if (position < batch.to) {
      throw new MosaicError(
        "aborted",
        `the batch begins at ${batch.from}, but the journal is stored up to ${position}`,
        { hint: "Connect again: the welcome names the position to continue from." },
      );
    }
    this.#count(position, (performance.now() - arrived) / 1000, batch);
    this.#storeFull = false;
    session.heldByStore(false);
    const window = windowOf(windowBytes, core.activity.proxies);
    await out.send({ message: { case: "ack", value: { position: BigInt(position), windowBytes: BigInt(window) } } });
  }

  /** One after the other: a source is read at the pace at which it is stored. */
  async #source(message: SourceBatch): Promise<void> {
    const { session, out } = this.#parts;
    await this.#stored(() => session.source(sourceBatchOf(message)));
    await out.send({ message: { case: "sourceAck", value: { position: message.position } } });
  }

  /** One after the other, like all else; the worker's records wait meanwhile in its journal. */
  async #file(message: FilePiece): Promise<void> {
    const { core, runId, session, connected, out } = this.#parts;
    const alive = setInterval(() => {
      session.heartbeat(connected.journalSize);
      tell(out, { case: "heartbeatAck", value: {} });
    }, ALIVE_MS);
    let answer: ChunkAnswer;
    try {
      await turn();
      answer = await session.file(chunkOf(message));
    } catch (error) {
      if (error instanceof MosaicError) throw error;
      const { path } = message;
      core.log.warn({ run_id: runId, path, error: messageOf(error) }, "a chunk of a file could not be stored");
      throw new MosaicError("aborted", messageOf(error), { cause: error });
    } finally {
      clearInterval(alive);
    }
    const { position } = message;
    await out.send({
      message: { case: "fileAck", value: { ...answer, offset: BigInt(answer.offset), position } },
    });
  }

  /**
   * A batch that cannot be read will not be readable when it is sent again: what is known of it is its place. A block that
   * is not right is delivered again as columns, from the journal.
   */
  #read(message: Batch): IngestBatch {
    const { core: { log }, runId, onBadBlock } = this.#parts;
    try {
      return batchOf(message);
    } catch (error) {
      if (message.sealedSteps !== undefined) {
        log.error({ run_id: runId, error: messageOf(error) }, "its proxy is to deliver without blocks");
        onBadBlock();
        throw new MosaicError("aborted", messageOf(error), { cause: error });
      }
      const [from, to] = [Number(message.fromPosition), Number(message.toPosition)];
      log.error({ run_id: runId, from, to, error: messageOf(error) }, "a batch cannot be read");
      return unreadableBatch(from, to, messageOf(error));
    }
  }

  #count(position: number, seconds: number, batch: IngestBatch): void {
    const { core: { activity }, connected } = this.#parts;
    activity.ackSeconds.observe(seconds);
    const bytes = position - connected.position;
    // What was stored before is delivered again after a broken connection, and counted once.
    if (bytes <= 0) return;
    activity.acknowledgedBytes += bytes;
    connected.position = position;
    activity.malformedLines += batch.malformedLines;
    for (const count of Object.values(batch.violations)) activity.schemaViolations += count;
  }

  /** Does the work in a fair turn, and again each second for as long as the store cannot be written. */
  async #stored<T>(work: () => T | Promise<T>): Promise<T> {
    const { core, runId, session, connected, signal } = this.#parts;
    const inTurn = async () => {
      await turn();
      return await work();
    };
    return await untilStored(inTurn, {
      signal,
      failed: (error) => {
        core.log.warn({ run_id: runId, cause: error.message }, "a batch cannot be stored; its proxy waits");
        this.#tellThatItWaits();
      },
      // The proxy's own heartbeats wait behind the batch, and it is alive.
      again: () => {
        session.heartbeat(connected.journalSize);
        this.#tellThatItWaits();
      },
    });
  }

  /** An acknowledgement of nothing new: the proxy is not to take the daemon for dead, and holds its worker on a full disk. */
  #tellThatItWaits(): void {
    const { session, connected, out } = this.#parts;
    const storeFull = this.#storeFull;
    tell(out, { case: "ack", value: { position: BigInt(connected.position), windowBytes: 0n, storeFull } });
    session.heldByStore(storeFull);
  }
}

/** undefined instead of `unavailable`: nothing was stored, and it may be tried again. */
async function unlessUnavailable<T>(stored: Promise<T>): Promise<T | undefined> {
  try {
    return await stored;
  } catch (error) {
    if (error instanceof MosaicError && error.code === "unavailable") return undefined;
    throw error;
  }
}
