/**
 * `mosaic.v1.Ingest`: one stream per proxy. A batch is acknowledged only when it is committed; while nothing can be stored
 * (disk full) the batch is kept, the stream waits, and the journal keeps the rest. Several small batches may wait for the
 * same commit; all other messages wait for the ones before them.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Bounds } from "../base/load_limits.ts";
import type { Core, Observed, ProxyHello, ProxyLink, ProxySession, WorkerSettings } from "../dispatch/core/core.ts";
import type { ExitReport } from "../registry/failure/explain.ts";
import type { ChunkAnswer } from "../registry/artifacts/take_uploads.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type {
  Batch,
  DaemonMessageSchema,
  Exit,
  FilePiece,
  Hello,
  Ingest,
  ProxyMessage,
  SealedSteps as SealedMessage,
  SourceBatch,
} from "../gen/mosaic/v1/mosaic_pb.ts";
import type { ConnectedProxy } from "../observability/activity.ts";
import type { EpisodeRecord, IngestBatch, StepColumns, WorkerEventRecord } from "../telemetry/batch.ts";
import { checkIngestProtocol, INGEST_PROTOCOL } from "../wire/ingest_protocol.ts";
import type { Caller, Handlers, Incoming, Outgoing } from "./handlers.ts";
import { checked, type Sealed, SEALED_FORM } from "../telemetry/store/sealed_steps.ts";
import { unreadableBatch } from "../telemetry/refused.ts";
import { fetchCheckpoint } from "./fetch_checkpoint.ts";
import { turn } from "./turns.ts";
import { isDiskFull } from "../telemetry/store/failures.ts";
import { untilStored } from "./until_stored.ts";

/**
 * Unacknowledged journal bytes of all proxies together. Proxies with a backlog share them: a hundred full windows would be
 * most of a daemon's memory. Each begins with a small window, because all may begin at once.
 */
const ALL_WINDOWS_BYTES = 16 << 20;
const FIRST_WINDOW_BYTES = 256 << 10;
const LEAST_WINDOW_BYTES = 64 << 10;
/**
 * Journal bytes of one proxy that wait for a commit; beyond this its next message waits, too, so that runs have equal turns.
 */
const WAITING_BYTES = 16 << 10;

/** Runs whose proxies have sent an invalid block; beyond this the oldest is forgotten. */
const MOST_UNSEALED = 1000;

/**
 * While a chunk of a file is being stored, which may require reading the whole file, its proxy gets a message this often.
 */
const ALIVE_MS = 3000;

type IngestBounds = Pick<Bounds, "windowBytes" | "uploadRateBytes">;

type ToProxy = Outgoing<typeof DaemonMessageSchema>;
type Three = [number, number, number];
type DaemonInit = NonNullable<Exclude<MessageInitShape<typeof DaemonMessageSchema>, { $typeName: string }>["message"]>;

export function ingestHandlers(core: Core, bounds: IngestBounds): Handlers<typeof Ingest> {
  const unsealed = new Set<string>();
  return {
    deliver: (incoming, out, caller) => deliver(core, bounds, unsealed, incoming, out, caller),
    fetch: (request, out) => fetchCheckpoint(core, request, out),
  };
}

async function deliver(
  core: Core,
  { windowBytes, uploadRateBytes }: IngestBounds,
  unsealed: Set<string>,
  incoming: Incoming<ProxyMessage>,
  out: ToProxy,
  caller: Caller,
): Promise<void> {
  let messages = await incoming.take();
  const first = messages[0]?.message;
  if (first === undefined) return;
  if (first.case !== "hello") {
    throw new MosaicError("failed_precondition", `the stream begins with "${first.case}": a proxy says hello first`);
  }
  checkIngestProtocol(first.value.protocol);

  const link = new StreamLink(incoming, out);
  const session = core.openProxy(helloOf(first.value), link);
  const connected = { journalSize: session.journalPosition, position: session.journalPosition };
  let proxy: Delivery | undefined;
  try {
    await out.send({
      message: {
        case: "welcome",
        value: {
          protocol: INGEST_PROTOCOL,
          journalPosition: BigInt(session.journalPosition),
          windowBytes: BigInt(Math.min(windowBytes, FIRST_WINDOW_BYTES)),
          control: session.control,
          ...(session.observed === undefined ? {} : { observed: observedOf(session.observed) }),
          sealedForm: unsealed.has(first.value.runId) ? "" : SEALED_FORM,
          ...(session.workerSettings === undefined ? {} : { worker: settingsOf(session.workerSettings) }),
          ...(session.takesFiles ? { files: { rate: BigInt(uploadRateBytes) } } : {}),
        },
      },
    });
    messages = messages.slice(1);
    core.activity.proxies.add(connected);
    const { runId } = first.value;
    const refused = () => remember(unsealed, runId);
    proxy = new Delivery({ core, session, incoming, out, caller, runId, connected, windowBytes, refused });
    for (;;) {
      for (const { message } of messages) await proxy.take(message);
      messages = await incoming.take();
      if (messages.length === 0) return await proxy.settled();
    }
  } catch (error) {
    throw proxy?.failure ?? error;
  } finally {
    core.activity.proxies.delete(connected);
    session.closed();
  }
}

function remember(unsealed: Set<string>, runId: string): void {
  unsealed.add(runId);
  if (unsealed.size > MOST_UNSEALED) unsealed.delete(unsealed.keys().next().value!);
}

/**
 * The current window of each proxy. A proxy has a backlog if that is more than the smallest window: a line that waits for
 * its newline, perhaps for hours, must not reduce the windows of others.
 * @param windowBytes the largest window
 */
export function windowOf(windowBytes: number, proxies: Iterable<ConnectedProxy>): number {
  let behind = 0;
  for (const { journalSize, position } of proxies) if (journalSize - position > LEAST_WINDOW_BYTES) behind++;
  const part = Math.floor(ALL_WINDOWS_BYTES / Math.max(1, behind));
  return Math.min(windowBytes, Math.max(LEAST_WINDOW_BYTES, part));
}

function settingsOf({ environment, resumeFrom, fetch }: WorkerSettings) {
  return { environment, resumeFrom: resumeFrom ?? "", fetch };
}

function helloOf(hello: Hello): ProxyHello {
  if (hello.runId === "") throw new MosaicError("invalid_argument", "run_id is empty: a proxy belongs to one run");
  return {
    runId: hello.runId,
    attempt: hello.attempt,
    workerId: hello.workerId,
    agentId: hello.agentId,
    proxy: { pid: Number(hello.proxyPid), identity: hello.proxyIdentity },
    worker: hello.workerPid === 0n ? null : { pid: Number(hello.workerPid), identity: hello.workerIdentity },
    version: hello.version,
    startsWorker: hello.startsWorker,
    ...(hello.job === "" ? {} : { place: { host: hello.host, job: hello.job, gpus: [...hello.gpus] } }),
  };
}

/** What the daemon may send to the proxy at any time, and how it ends the stream. */
class StreamLink implements ProxyLink {
  readonly #incoming: Incoming<ProxyMessage>;
  readonly #out: ToProxy;

  constructor(incoming: Incoming<ProxyMessage>, out: ToProxy) {
    this.#incoming = incoming;
    this.#out = out;
  }

  control(desired: { paused: boolean; maxRateHz: number }): void {
    this.#tell({ case: "control", value: { ...desired, selfPaused: "" } });
  }

  stop(graceSeconds: number): void {
    this.#tell({ case: "stop", value: { graceSeconds } });
  }

  accompanied(shared: boolean): void {
    this.#tell({ case: "observed", value: { cursors: [], shared, others: true } });
  }

  close(reason: string): void {
    this.#incoming.interrupt(new MosaicError("aborted", reason));
  }

  /** Small and rare, so it does not wait for the gate; a proxy that has disconnected asks again when it is back. */
  #tell(message: DaemonInit): void {
    try {
      this.#out.send({ message })?.catch(() => {});
    } catch {
      // The proxy has disconnected.
    }
  }
}

/** Handles one proxy's messages, in order. */
class Delivery {
  readonly #core: Core;
  readonly #session: ProxySession;
  readonly #out: ToProxy;
  readonly #caller: Caller;
  readonly #runId: string;
  readonly #connected: ConnectedProxy;
  readonly #windowBytes: number;
  readonly #refused: () => void;
  readonly #incoming: Incoming<ProxyMessage>;
  /** Settles when all batches so far are stored and acknowledged; never rejects. */
  #last: Promise<void> = Promise.resolve();
  #waitingBytes = 0;
  #failure: unknown;

  constructor({ core, session, incoming, out, caller, runId, connected, windowBytes, refused }: {
    core: Core;
    session: ProxySession;
    incoming: Incoming<ProxyMessage>;
    out: ToProxy;
    caller: Caller;
    runId: string;
    connected: ConnectedProxy;
    windowBytes: number;
    /** Sealed steps of this run are refused from now on. */
    refused: () => void;
  }) {
    this.#core = core;
    this.#session = session;
    this.#out = out;
    this.#caller = caller;
    this.#runId = runId;
    this.#connected = connected;
    this.#windowBytes = windowBytes;
    this.#refused = refused;
    this.#incoming = incoming;
  }

  /** Why the stream ends, if the reason is a batch before the current message. */
  get failure(): unknown {
    return this.#failure;
  }

  /** All batches so far are stored and acknowledged. @throws why they are not */
  async settled(): Promise<void> {
    this.#session.commit();
    await this.#last;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async take(message: ProxyMessage["message"]): Promise<void> {
    switch (message.case) {
      case "batch":
        return await this.#batch(message.value);
      case "heartbeat":
        this.#connected.journalSize = Number(message.value.journalSize);
        this.#session.heartbeat(this.#connected.journalSize);
        await this.#out.send({ message: { case: "heartbeatAck", value: {} } });
        return;
      case "filePiece":
        return await this.#file(message.value);
      case "sourceBatch":
        return await this.#source(message.value);
      case "workerStarted": {
        const { pid, identity } = message.value;
        return this.#session.workerStarted({ pid: Number(pid), identity });
      }
      case "control":
        await this.settled();
        return await this.#stored(0, () => this.#session.controlApplied(message.value));
      case "exit":
        await this.settled();
        await this.#stored(0, () => this.#session.exit(exitOf(message.value)));
        await this.#out.send({ message: { case: "exitAck", value: {} } });
        return;
      case "hello":
        throw new MosaicError("failed_precondition", "a second hello: a proxy sends one, at the beginning");
      case undefined:
        // A message of a newer proxy with the same major version; it can be ignored.
        return;
    }
  }

  async #batch(message: Batch): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const journalSize = Number(message.journalSize);
    const arrived = performance.now();
    this.#connected.journalSize = journalSize;
    await turn();
    const batch = this.#read(message);
    const samples = { malformed: message.malformedSamples, violations: message.violationSamples };
    const store = () => this.#session.batch(batch, journalSize, samples);
    let first: Promise<number> | undefined = store();
    // It is awaited when the earlier ones are settled. If the store was not writable, that is the time to try again.
    first.catch((error) => {
      if (error instanceof MosaicError && error.code === "unavailable") first = undefined;
    });
    const bytes = batch.to - batch.from;
    this.#waitingBytes += bytes;
    this.#last = this.#last.then(async () => {
      if (this.#failure !== undefined) return;
      await this.#settle(batch, first, store, journalSize, arrived);
      this.#waitingBytes -= bytes;
    }).catch((error) => {
      this.#failure = error;
      this.#incoming.interrupt(new MosaicError("aborted", messageOf(error)));
    });
    if (this.#waitingBytes > WAITING_BYTES) await this.#last;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** One after the other: a source is read at the pace at which it is stored. */
  async #source(message: SourceBatch): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    await this.#stored(this.#connected.journalSize, () => this.#session.source(sourceBatchOf(message)));
    await this.#out.send({ message: { case: "sourceAck", value: { position: message.position } } });
  }

  /** One after the other, like all other messages; the worker's records wait in its journal meanwhile. */
  async #file(message: FilePiece): Promise<void> {
    const { path, data, crc, sha256, position } = message;
    const [size, changedAt, offset] = [message.size, message.changedAt, message.offset].map(Number) as Three;
    const alive = setInterval(() => {
      this.#session.heartbeat(this.#connected.journalSize);
      this.#out.send({ message: { case: "heartbeatAck", value: {} } })?.catch(() => {});
    }, ALIVE_MS);
    let answer: ChunkAnswer;
    try {
      await turn();
      answer = await this.#session.file({ path, size, changedAt, offset, data, crc, sha256 });
    } catch (error) {
      if (error instanceof MosaicError) throw error;
      this.#core.log.warn(
        { run_id: this.#runId, path, error: messageOf(error) },
        "a chunk of a file could not be stored",
      );
      throw new MosaicError("aborted", messageOf(error), { cause: error });
    } finally {
      clearInterval(alive);
    }
    await this.#out.send({
      message: { case: "fileAck", value: { ...answer, offset: BigInt(answer.offset), position } },
    });
  }

  async #settle(
    batch: IngestBatch,
    first: Promise<number> | undefined,
    store: () => Promise<number>,
    journalSize: number,
    arrived: number,
  ): Promise<void> {
    let position = await this.#stored(journalSize, store, { first });
    // It was tried together with an earlier batch that was not stored then, and is now.
    if (position < batch.from && this.#connected.position === batch.from) {
      position = await this.#stored(journalSize, store, {});
    }
    if (position < batch.to) {
      throw new MosaicError(
        "aborted",
        `the batch begins at ${batch.from}, but the journal is stored up to ${position}`,
        { hint: "Connect again: the welcome names the position to continue from." },
      );
    }
    this.#acknowledged(position, (performance.now() - arrived) / 1000, batch);
    this.#session.heldByStore(false);
    await this.#out.send({
      message: {
        case: "ack",
        value: {
          position: BigInt(position),
          windowBytes: BigInt(windowOf(this.#windowBytes, this.#core.activity.proxies)),
        },
      },
    });
  }

  /**
   * An unreadable batch would be unreadable each time, so only its positions are stored. A batch with an invalid block is
   * delivered again as columns, from the journal.
   */
  #read(message: Batch): IngestBatch {
    try {
      return batchOf(message);
    } catch (error) {
      if (message.sealedSteps !== undefined) {
        this.#core.log.error(
          { run_id: this.#runId, error: messageOf(error) },
          "its proxy must deliver without blocks",
        );
        this.#refused();
        throw new MosaicError("aborted", messageOf(error), { cause: error });
      }
      const [from, to] = [Number(message.fromPosition), Number(message.toPosition)];
      this.#core.log.error({ run_id: this.#runId, from, to, error: messageOf(error) }, "a batch cannot be read");
      return unreadableBatch(from, to, messageOf(error));
    }
  }

  #acknowledged(position: number, seconds: number, batch: IngestBatch): void {
    const { activity } = this.#core;
    activity.ackSeconds.observe(seconds);
    const bytes = position - this.#connected.position;
    // A stored batch may be delivered again after a broken connection, and is counted once.
    if (bytes <= 0) return;
    activity.acknowledgedBytes += bytes;
    this.#connected.position = position;
    activity.malformedLines += batch.malformedLines;
    for (const count of Object.values(batch.violations)) activity.schemaViolations += count;
  }

  /**
   * Does the work in a fair turn, and again every second as long as the store cannot be written. @param batch for batches
   * only; `first` is the first try, if it has begun
   */
  async #stored<T>(
    journalSize: number,
    work: () => T | Promise<T>,
    batch?: { first?: Promise<T> | undefined },
  ): Promise<T> {
    const attempt = async (tries: number) => {
      if (tries === 1 && batch?.first !== undefined) return await batch.first;
      await turn();
      return await work();
    };
    return await untilStored(attempt, {
      signal: this.#caller.signal,
      failed: (error) => {
        this.#core.log.warn({ run_id: this.#runId, cause: error.message }, "a batch cannot be stored; its proxy waits");
        // An acknowledgement ends the hold, so only a batch may begin one.
        this.#waits(batch !== undefined && isDiskFull(error));
      },
      // The proxy's own heartbeats wait behind the batch, but it is alive.
      again: (error) => {
        this.#session.heartbeat(journalSize);
        this.#waits(batch !== undefined && isDiskFull(error));
      },
    });
  }

  /**
   * An acknowledgement without progress shows the proxy that the daemon is alive, and that the disk is full, so that it
   * holds its worker.
   */
  #waits(storeFull: boolean): void {
    const value = { position: BigInt(this.#connected.position), windowBytes: 0n, storeFull };
    try {
      this.#out.send({ message: { case: "ack", value } })?.catch(() => {});
    } catch {
      // The proxy has disconnected.
    }
    this.#session.heldByStore(storeFull);
  }
}

const decoder = new TextDecoder();

function parsed<T>(bytes: Uint8Array, field: string, empty: T): T {
  if (bytes.length === 0) return empty;
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (error) {
    throw new MosaicError("invalid_argument", `${field} is no JSON: ${messageOf(error)}`);
  }
}

function columnsOf(stepsJson: Uint8Array): StepColumns {
  const steps = parsed<StepColumns>(stepsJson, "steps_json", { n: 0 });
  for (const [name, column] of Object.entries(steps)) {
    if (Array.isArray(column) && column.length !== steps.n) {
      throw new MosaicError("invalid_argument", `steps_json: column ${name} has ${column.length} of ${steps.n} rows`);
    }
  }
  return steps;
}

export function sealedOf(message: SealedMessage): Sealed {
  const { n, crc, head, hot, raw, body, info, clamped, agentId, workerId, policyLabel, backend } = message;
  let read: unknown;
  try {
    read = JSON.parse(head);
  } catch (error) {
    throw new MosaicError("invalid_argument", `the head of sealed steps is no JSON: ${messageOf(error)}`);
  }
  const [fromNs, toNs, unitNs, cells] = Array.isArray(read) && Array.isArray(read[3]) ? read : ["", "", 0, []];
  const block = { first: 0, n, crc, fromNs, toNs, unitNs, cells, hot, raw, body };
  return { n, labels: { agentId, workerId, policyLabel, backend }, block, info, clamped };
}

/** The batch with its columns. They come from mosaic's own proxy: their structure is checked, their values are not. */
export function batchOf(message: Batch): IngestBatch {
  const { sealedSteps } = message;
  const steps = sealedSteps === undefined ? columnsOf(message.stepsJson) : checked(sealedOf(sealedSteps));
  const violations: Record<string, number> = {};
  for (const [rule, count] of Object.entries(message.violations)) violations[rule] = Number(count);
  return {
    from: Number(message.fromPosition),
    to: Number(message.toPosition),
    steps,
    episodes: recordsOf<EpisodeRecord>(message.episodesJson, "episodes_json"),
    events: recordsOf<WorkerEventRecord>(message.eventsJson, "events_json"),
    otherLines: Number(message.otherLines),
    malformedLines: Number(message.malformedLines),
    violations,
  };
}

/** @throws MosaicError `invalid_argument` for an invalid batch of a source */
function sourceBatchOf({ cursor, episodesJson, eventsJson }: SourceBatch): IngestBatch {
  if (cursor === undefined || cursor.name === "" || cursor.serial < 1n) {
    throw new MosaicError("invalid_argument", "a batch of a source has no cursor, or one without a name or a serial");
  }
  const { name, label, state } = cursor;
  const serial = Number(cursor.serial);
  return {
    source: { name, label, state },
    from: serial - 1,
    to: serial,
    steps: { n: 0 },
    episodes: recordsOf<EpisodeRecord>(episodesJson, "episodes_json"),
    events: recordsOf<WorkerEventRecord>(eventsJson, "events_json"),
    otherLines: 0,
    malformedLines: 0,
    violations: {},
  };
}

function observedOf({ cursors, ...beside }: Observed) {
  return { ...beside, cursors: cursors.map((cursor) => ({ ...cursor, serial: BigInt(cursor.serial) })) };
}

/** @throws MosaicError `invalid_argument` for anything but an array of objects */
function recordsOf<R extends object>(json: Uint8Array, field: string): R[] {
  const records = parsed<unknown>(json, field, []);
  if (Array.isArray(records) && records.every((record) => typeof record === "object" && record !== null)) {
    return records as R[];
  }
  throw new MosaicError("invalid_argument", `${field} is not an array of objects`);
}

function exitOf(exit: Exit): ExitReport {
  return {
    code: exit.code ?? null,
    signal: exit.signal,
    lost: exit.lost,
    finalPosition: Number(exit.finalPosition),
    stderrTail: exit.stderrTail,
    spawnError: exit.spawnError,
  };
}
