/**
 * Handles the messages of one connected proxy, in order. A batch is stored as soon as it arrives,
 * in one commit with batches that arrived shortly before, and acknowledged when it is committed and
 * all earlier ones are acknowledged. Messages of other kinds wait for the batches before them where
 * the order matters.
 */
import type { Core } from "../../dispatch/core/core.ts";
import type { ProxySession } from "../../dispatch/attempt/state/connected_proxy.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Batch, FilePiece, ProxyMessage, SourceBatch } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { ConnectedProxy } from "../../observability/activity.ts";
import type { ChunkAnswer } from "../../uploads/take_uploads.ts";
import type { IngestBatch } from "../../records/ingest_batch.ts";
import { unreadableBatch } from "../../records/refused.ts";
import { missingToWrite } from "../../telemetry/blocks/failures.ts";
import { InOrder } from "./in_order.ts";
import { batchOf, chunkOf, exitOf, sourceBatchOf } from "./ingest_messages.ts";
import { sendWithoutWaiting, type ToProxy } from "./proxy_link.ts";
import { windowOf } from "./proxy_window.ts";
import { turn } from "../call/turns.ts";
import { untilStored } from "../call/until_stored.ts";

/**
 * Journal bytes of one proxy that may wait for a commit. Beyond this its next message waits as
 * well, so that runs get equal turns.
 */
const WAITING_BYTES = 16 << 10;

/**
 * Interval of heartbeats to a proxy while a chunk of its file is stored, which may include reading
 * the whole file.
 */
const ALIVE_MS = 3000;

interface ProxyStreamParts {
  core: Core;
  runId: string;
  session: ProxySession;
  /** The known positions of the proxy's journal; updated here. */
  connected: ConnectedProxy;
  out: ToProxy;
  /** Limit on one proxy's window. */
  windowBytes: number;
  /** Aborted when the proxy has disconnected or the daemon stops. */
  signal: AbortSignal;
  /** Called for an invalid block of sealed steps: the run's proxies must send no more blocks. */
  onBadBlock: () => void;
  /** Called if a batch cannot be stored: the stream must end. */
  onFailure: (failure: Error) => void;
}

export class ProxyStream {
  readonly #parts: ProxyStreamParts;
  readonly #batches: InOrder;
  /**
   * A batch waits because the store's disk is full; the proxy holds its worker until the
   * acknowledgement.
   */
  #missing: ReturnType<typeof missingToWrite>;

  constructor(parts: ProxyStreamParts) {
    this.#parts = parts;
    this.#batches = new InOrder(parts.onFailure);
  }

  /**
   * Waits until all batches so far are stored and acknowledged. @throws the error of a batch that
   * cannot be stored
   */
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
        throw new MosaicError(
          "failed_precondition",
          "this is a second hello: a proxy must send one only, as its first message",
        );
      case undefined:
        // A message that a newer proxy of the same major version has added.
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
        this.#missing = missingToWrite(error);
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
   * Acknowledges a batch, when all batches before it are acknowledged.
   * @param early result of storing it when it arrived: the position up to which the journal was
   * stored; undefined: nothing
   *   could be stored
   */
  async #finish(
    batch: IngestBatch,
    early: Promise<number | undefined>,
    store: () => Promise<number>,
    arrived: number,
  ): Promise<void> {
    const { core, session, connected, out, windowBytes } = this.#parts;
    let position = await early;
    // The batch before it could not be stored at that time, and is stored now.
    const wasAhead = position !== undefined && position < batch.from &&
      connected.position === batch.from;
    if (position === undefined || wasAhead) position = await this.#stored(store);
    if (position < batch.to) {
      throw new MosaicError(
        "aborted",
        `the batch begins at ${batch.from}, but the journal is stored up to ${position}`,
        { hint: "Connect again: the welcome names the position to continue from." },
      );
    }
    this.#count(position, (performance.now() - arrived) / 1000, batch);
    this.#missing = undefined;
    session.heldByStore(undefined);
    const window = windowOf(windowBytes, core.activity.proxies);
    await out.send({
      message: { case: "ack", value: { position: BigInt(position), windowBytes: BigInt(window) } },
    });
  }

  /** Waits until it is stored, so that a source is read no faster than it is stored. */
  async #source(message: SourceBatch): Promise<void> {
    const { session, out } = this.#parts;
    await this.#stored(() => session.source(sourceBatchOf(message)));
    await out.send({ message: { case: "sourceAck", value: { position: message.position } } });
  }

  /** Waits until the chunk is stored; meanwhile the worker's records wait in its journal. */
  async #file(message: FilePiece): Promise<void> {
    const { core, runId, session, connected, out } = this.#parts;
    const alive = setInterval(() => {
      session.heartbeat(connected.journalSize);
      sendWithoutWaiting(out, { case: "heartbeatAck", value: {} });
    }, ALIVE_MS);
    let answer: ChunkAnswer;
    try {
      await turn();
      answer = await session.file(chunkOf(message));
    } catch (error) {
      if (error instanceof MosaicError) throw error;
      const { path } = message;
      core.log.warn(
        { run_id: runId, path, error: messageOf(error) },
        "a chunk of a file could not be stored",
      );
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
   * A batch that cannot be read would not be readable if it were sent again: only its range of the
   * journal is recorded. An invalid block is delivered again as columns, from the journal.
   */
  #read(message: Batch): IngestBatch {
    const { core: { log }, runId, onBadBlock } = this.#parts;
    try {
      return batchOf(message);
    } catch (error) {
      if (message.sealedSteps !== undefined) {
        log.error(
          { run_id: runId, error: messageOf(error) },
          "a block of sealed steps is invalid; the run's proxy delivers without blocks from now on",
        );
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
    // After a broken connection stored records may be delivered again; they are counted once.
    if (bytes <= 0) return;
    activity.acknowledgedBytes += bytes;
    connected.position = position;
    activity.malformedLines += batch.malformedLines;
    for (const count of Object.values(batch.violations)) activity.schemaViolations += count;
  }

  /** Does the work in a fair turn, and repeats it each second while the store cannot be written. */
  async #stored<T>(work: () => T | Promise<T>): Promise<T> {
    const { core, runId, session, connected, signal } = this.#parts;
    const inTurn = async () => {
      await turn();
      return await work();
    };
    return await untilStored(inTurn, {
      signal,
      failed: (error) => {
        core.log.warn(
          { run_id: runId, cause: error.message },
          "a batch cannot be stored; its proxy waits",
        );
        this.#reportWaiting();
      },
      // The proxy is alive, but its heartbeats wait behind the batch.
      again: () => {
        session.heartbeat(connected.journalSize);
        this.#reportWaiting();
      },
    });
  }

  /**
   * Repeats the last acknowledgement, so that the proxy knows that the daemon is alive, and holds
   * its worker if the disk is full or read-only.
   */
  #reportWaiting(): void {
    const { session, connected, out } = this.#parts;
    const missing = this.#missing;
    sendWithoutWaiting(out, {
      case: "ack",
      value: {
        position: BigInt(connected.position),
        windowBytes: 0n,
        storeFull: missing !== undefined,
      },
    });
    session.heldByStore(missing);
  }
}

/** Returns undefined for `unavailable`: nothing was stored, and it may be tried again. */
async function unlessUnavailable<T>(stored: Promise<T>): Promise<T | undefined> {
  try {
    return await stored;
  } catch (error) {
    if (error instanceof MosaicError && error.code === "unavailable") return undefined;
    throw error;
  }
}
