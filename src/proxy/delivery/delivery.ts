/**
 * Performs the proxy's effects on the connection to the daemon and on the journal. Results come
 * back as events.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { DaemonMessage, HelloSchema, Observed } from "../../gen/mosaic/v1/ingest_pb.ts";
import { INGEST_PROTOCOL, type ProxyMessageInit } from "../../wire/ingest_protocol.ts";
import type { buildBatch, BuiltBatch } from "./batches.ts";
import type { DaemonAddress } from "./daemon_address.ts";
import type { Event, Failure, Message, SourceId } from "../state/events_and_effects.ts";
import type { IngestStream } from "./ingest_stream.ts";
import type { Journal, JournalChunk } from "../../journal/journal.ts";
import type { Logger } from "../../base/log.ts";
import type { EventQueue } from "../state/queue.ts";
import { Lines } from "../../readers/lines/lines.ts";
import { Suspects } from "./suspects.ts";
import { ANNOUNCEMENT_POLL_MS, LOGGED_FAILURES } from "../state/reconnect.ts";
import type { FileSources, SourceBatchInit } from "../../readers/files/file_sources.ts";
import type { Company } from "../../readers/files/own_source.ts";
import type { FileUploads } from "../../uploads/uploads.ts";
import { type Receiver, StreamTransport, type Transport } from "./transport.ts";

type HelloInit = Exclude<MessageInitShape<typeof HelloSchema>, { $typeName: string }>;

/** Modules that are loaded only after the worker was started, while it starts up. */
export interface DeliveryParts {
  open: (target: string) => IngestStream;
  buildBatch: (
    chunk: JournalChunk,
    sealedForm: string,
    more: Parameters<typeof buildBatch>[2],
  ) => BuiltBatch;
}

export interface DeliveryPlan {
  address: DaemonAddress;
  /** Identifies this proxy; its worker is added. */
  hello: HelloInit;
  load: () => Promise<DeliveryParts>;
  /** Takes the last record of each batch that has a render payload. */
  show?: ((framed: NonNullable<BuiltBatch["framed"]>) => void) | undefined;
}

export interface Sources {
  journal: Journal;
  /** undefined: only the journal is read. */
  files: FileSources | undefined;
  /** For a daemon that asks for the files of the run's directory. */
  uploads: () => Promise<FileUploads>;
}

export class Delivery implements Receiver {
  readonly #plan: DeliveryPlan;
  readonly #journal: Journal;
  readonly #files: FileSources | undefined;
  readonly #loadUploads: Sources["uploads"];
  #uploads: FileUploads | undefined;
  /** Bytes a second, from the last welcome; undefined: the daemon wants no files. */
  #uploadRate: number | undefined;
  /** The daemon has acknowledged all files over this connection. */
  #allUploaded = false;
  #closings = 0;
  /** Bytes of uploaded files sent over this connection. */
  #uploaded = 0;
  readonly #queue: EventQueue<Event>;
  readonly #log: Logger;
  #parts: { transport: Transport; buildBatch: DeliveryParts["buildBatch"] } | undefined;
  readonly #reads = new Map<SourceId, ReturnType<typeof setImmediate>>();
  /** Cursors of the stored files, from the last welcome. */
  #observed: Parameters<FileSources["restore"]>[0];
  /** The block format that the daemon accepts, from the last welcome. */
  #sealedForm = "";
  /** Bytes of files sent over this connection. */
  #filesSent = 0;
  #announcements: ReturnType<typeof setInterval> | undefined;
  readonly #suspects = new Suspects();
  /** Between `connect` and `close`: the modules may be loaded only after `close`. */
  #wanted = false;

  constructor(plan: DeliveryPlan, sources: Sources, queue: EventQueue<Event>, log: Logger) {
    this.#plan = plan;
    this.#journal = sources.journal;
    this.#files = sources.files;
    this.#loadUploads = sources.uploads;
    this.#queue = queue;
    this.#log = log;
  }

  // -------------------------------------------------------------------------------------------------
  // the connection

  async connect(): Promise<void> {
    clearInterval(this.#announcements);
    this.#wanted = true;
    try {
      if (this.#parts === undefined) {
        const { open, buildBatch } = await this.#plan.load();
        this.#parts = { transport: new StreamTransport(open, this), buildBatch };
      }
    } catch (error) {
      return this.#queue.fail(error);
    }
    if (this.#wanted) this.#parts.transport.connect(this.#plan.address.current);
  }

  close(): void {
    this.#wanted = false;
    this.#closings++;
    for (const read of this.#reads.values()) clearImmediate(read);
    this.#files?.close();
    this.#uploads?.close();
    clearInterval(this.#announcements);
    this.#parts?.transport.close();
  }

  /** A daemon may announce another address, or itself again, before the next try is due. */
  awaitDaemon(error: string, tries: number): void {
    const { address } = this.#plan;
    if (tries === 1 || tries % LOGGED_FAILURES === 0) {
      this.#log.warn({ target: address.current, error, tries }, "delivery interrupted");
    }
    address.refresh();
    this.#announcements = setInterval(() => {
      if (!address.isAnnouncedAnew()) return;
      address.refresh();
      this.#queue.put({ tag: "daemon_announced" });
    }, ANNOUNCEMENT_POLL_MS);
  }

  connected(): void {
    this.#queue.put({ tag: "connected" });
  }

  disconnected(error: unknown): void {
    const code = error instanceof MosaicError ? error.code : undefined;
    if (code !== undefined) this.#suspects.failed(messageOf(error), code);
    const failure: Failure = {
      code,
      message: messageOf(error),
      announced: this.#plan.address.isAnnounced(),
    };
    this.#queue.put({ tag: "disconnected", failure });
  }

  received(message: DaemonMessage["message"]): void {
    if (message.case === "welcome") {
      this.#observed = observedOf(message.value.observed);
      this.#sealedForm = message.value.sealedForm;
      this.#uploadRate = message.value.files && Number(message.value.files.rate);
      this.#allUploaded = false;
      const stored = new Map(this.#observed?.cursors.map(({ name, serial }) => [name, serial]));
      const position = Number(message.value.journalPosition);
      this.#suspects.welcomed(({ source, name, at }) =>
        source === "stdout" ? at < position : at <= (stored.get(name) ?? 0)
      );
    }
    if (message.case === "observed") this.#files?.accompanied(companyOf(message.value));
    if (message.case === "fileAck") this.#uploads?.answered(message.value);
    const event = eventOf(message, this.#plan.address.current);
    if (event !== undefined) this.#queue.put(event);
  }

  send(message: Message): void {
    this.#parts?.transport.send(this.#encode(message));
  }

  #encode(message: Message): ProxyMessageInit {
    switch (message.case) {
      case "hello": {
        const { pid, identity } = message.leader ?? { pid: 0, identity: "" };
        const worker = {
          workerPid: BigInt(pid),
          workerIdentity: identity,
          startsWorker: message.startsWorker,
        };
        return {
          case: "hello",
          value: { ...this.#plan.hello, ...worker, protocol: INGEST_PROTOCOL },
        };
      }
      case "worker_started": {
        const { pid, identity } = message.leader;
        return { case: "workerStarted", value: { pid: BigInt(pid), identity } };
      }
      case "heartbeat":
        return { case: "heartbeat", value: { journalSize: this.#journalSize() } };
      case "control":
        return { case: "control", value: message.applied };
      case "exit": {
        const { end: { exit, stderrTail, byItself = false }, finalPosition } = message;
        return {
          case: "exit",
          value: {
            ...(exit === undefined || exit.code === null ? {} : { code: exit.code }),
            signal: exit?.signal ?? "",
            lost: exit === undefined,
            stderrTail,
            spawnError: exit?.spawnError ?? "",
            finalPosition: BigInt(finalPosition),
            byItself,
          },
        };
      }
    }
  }

  // -------------------------------------------------------------------------------------------------
  // the journal

  seek(source: SourceId, position: number): void {
    if (source === "stdout") return this.#journal.seek(position);
    if (source === "uploads") {
      this.#uploaded = position;
      return this.#uploads?.begin(this.#uploadRate ?? 0);
    }
    this.#filesSent = position;
    this.#files?.restore(this.#observed);
  }

  /** The daemon has everything of the run's directory. */
  get allUploaded(): boolean {
    return this.#allUploaded;
  }

  /** Calls `changed` when files may have to be uploaded. */
  armUploads(changed: () => void): void {
    this.#uploads?.arm(changed);
  }

  /** Not at once: acknowledgements, control and signals are handled between two batches. */
  read(source: SourceId, most: number, final: boolean): void {
    this.#reads.set(
      source,
      setImmediate(() => {
        try {
          if (source === "stdout") this.#sendBatch(most, final);
          else if (source === "uploads") this.#sendFile(final);
          else this.#sendOfFiles(most, final);
        } catch (error) {
          this.#unreadable(error);
        }
      }),
    );
  }

  async #sendFile(final: boolean): Promise<void> {
    const closings = this.#closings;
    try {
      if (this.#uploads === undefined) {
        const uploads = await this.#loadUploads();
        if (closings !== this.#closings) return;
        uploads.begin(this.#uploadRate ?? 0);
        this.#uploads = uploads;
      }
      const chunk = await this.#uploads.next(final);
      if (chunk === "closed") return;
      if (chunk === undefined) {
        this.#allUploaded = final && !this.#uploads.hasLeft;
        return this.#queue.put({ tag: "caught_up", source: "uploads", final });
      }
      const to = this.#uploaded += chunk.bytes;
      this.#parts!.transport.send({
        case: "filePiece",
        value: { ...chunk.message, position: BigInt(to) },
      });
      const { bytes } = chunk;
      this.#queue.put({
        tag: "batch_sent",
        source: "uploads",
        to,
        lines: 0,
        bytes,
        steps: 0,
        eventKinds: [],
      });
    } catch (error) {
      if (closings !== this.#closings) return;
      this.#unreadable(error);
    }
  }

  /** What cannot be read now is read again over the next connection. */
  #unreadable(error: unknown): void {
    const failure: Failure = {
      code: undefined,
      message: messageOf(error),
      announced: false,
      unreadable: true,
    };
    this.#queue.put({ tag: "disconnected", failure });
  }

  #sendOfFiles(most: number, final: boolean): void {
    const batch = this.#files?.next(most, final);
    if (batch === undefined) return this.#queue.put({ tag: "caught_up", source: "files", final });
    const { bytes } = batch;
    const { name, serial } = batch.message.cursor as { name: string; serial: bigint };
    const at = Number(serial);
    const why = this.#suspects.passes("files", name, at);
    const message = why === undefined ? batch.message : passedOver(batch.message, why);
    this.#suspects.sending({ source: "files", name, at, to: at });
    const to = this.#filesSent += bytes;
    this.#parts!.transport.send({
      case: "sourceBatch",
      value: { ...message, position: BigInt(to) },
    });
    this.#queue.put({
      tag: "batch_sent",
      source: "files",
      to,
      lines: 0,
      bytes,
      steps: 0,
      eventKinds: [],
    });
  }

  #sendBatch(most: number, final: boolean): void {
    const isAlone = this.#suspects.isAlone(this.#journal.position);
    const chunk = this.#journal.next(final, isAlone ? 1 : most);
    if (chunk === undefined) return this.#queue.put({ tag: "caught_up", source: "stdout", final });
    const { transport, buildBatch } = this.#parts!;
    const { from } = chunk;
    const why = this.#suspects.passes("stdout", "", from);
    this.#suspects.sending({ source: "stdout", name: "", at: from, to: chunk.to });
    if (why !== undefined) {
      this.#log.warn({ from, to: chunk.to, error: why }, "a line is passed over");
    }
    let built: BuiltBatch;
    try {
      built = buildBatch(
        why === undefined ? chunk : { ...chunk, lines: Lines.of(), passedOver: why },
        this.#sealedForm,
        final || isAlone ? { final: true } : { final: false, written: this.#journal.size() },
      );
    } catch (error) {
      this.#suspects.failed(messageOf(error));
      throw error;
    }
    const { message, steps, eventKinds, to, lines, framed } = built;
    if (to < chunk.to) this.#journal.giveBack(to);
    // All of it is the beginning of an unfinished table.
    if (to === from && chunk.to > from) {
      return this.#queue.put({ tag: "caught_up", source: "stdout", final });
    }
    if (framed !== undefined) this.#plan.show?.(framed);
    transport.send({ case: "batch", value: { ...message, journalSize: this.#journalSize() } });
    this.#queue.put({
      tag: "batch_sent",
      source: "stdout",
      to,
      lines,
      bytes: to - from,
      steps,
      eventKinds,
    });
  }

  #journalSize(): bigint {
    return BigInt(this.#journal.size());
  }
}

/** Says in the place of a file's records that they are left out. */
function passedOver({ cursor }: SourceBatchInit, error: string): SourceBatchInit {
  const detail =
    `some of its records are left out, because the daemon did not take them twice: ${error}`;
  const data = { source: cursor?.name ?? "", problem: "corrupt", at: 0, bytes: 0, detail };
  const events = [{ kind: "source_problem", dataJson: JSON.stringify(data), tsNs: "" }];
  return {
    cursor,
    episodesJson: new Uint8Array(0),
    eventsJson: new TextEncoder().encode(JSON.stringify(events)),
  };
}

function observedOf(observed: Observed | undefined): Parameters<FileSources["restore"]>[0] {
  if (observed === undefined) return undefined;
  const cursors = observed.cursors.map((cursor) => ({ ...cursor, serial: Number(cursor.serial) }));
  return { cursors, ...companyOf(observed) };
}

/** An older daemon does not distinguish a working directory above or below from the same one. */
function companyOf({ shared, others, neighbours }: Observed): Company {
  return { shared: neighbours?.same ?? shared, below: neighbours?.below ?? [], others };
}

function eventOf(message: DaemonMessage["message"], target: string): Event | undefined {
  switch (message.case) {
    case "welcome": {
      const { journalPosition, windowBytes, control, worker } = message.value;
      const positions = { stdout: Number(journalPosition), files: 0, uploads: 0 };
      const uploads = message.value.files !== undefined;
      return {
        tag: "welcomed",
        target,
        positions,
        windowBytes: Number(windowBytes),
        control,
        uploads,
        worker,
      };
    }
    case "ack": {
      const { position, windowBytes, storeFull } = message.value;
      return {
        tag: "acknowledged",
        source: "stdout",
        position: Number(position),
        windowBytes: Number(windowBytes),
        storeFull,
      };
    }
    case "sourceAck":
      return {
        tag: "acknowledged",
        source: "files",
        position: Number(message.value.position),
        windowBytes: 0,
      };
    case "fileAck":
      return {
        tag: "acknowledged",
        source: "uploads",
        position: Number(message.value.position),
        windowBytes: 0,
      };
    case "heartbeatAck":
      return { tag: "heartbeat_answered" };
    case "observed":
      return undefined;
    case "control":
      return { tag: "control", desired: message.value };
    case "stop":
      return { tag: "stop_requested", graceS: message.value.graceSeconds };
    case "saveCheckpoint":
      return { tag: "checkpoint_requested" };
    case "exitAck":
      return { tag: "exit_acknowledged" };
    case undefined:
      // A later daemon's message that this version does not know.
      return undefined;
  }
}
