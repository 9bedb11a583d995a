/** The daemon's end of the ingest stream, by a real gRPC server, with a store in memory that checks what it is given. */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream, type ServiceDefinition, status } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  DaemonMessageSchema,
  type Exit,
  type Hello,
  Ingest,
  type ProxyMessage,
  ProxyMessageSchema,
} from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { EpisodeRecord, StepColumns, WorkerEventRecord } from "../../src/telemetry/batch.ts";

type Call = ServerDuplexStream<Buffer, Buffer>;
type Message = NonNullable<Exclude<MessageInitShape<typeof DaemonMessageSchema>, { $typeName: string }>["message"]>;

const same = (bytes: Buffer) => bytes;
const DEFINITION: ServiceDefinition = {
  deliver: {
    path: `/${Ingest.typeName}/Deliver`,
    requestStream: true,
    responseStream: true,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  },
};

export class FakeDaemon {
  /** What outlives a restart of the daemon. */
  position = 0;
  readonly steps: { step: number; action: string; agent: string; render: string }[] = [];
  readonly episodes: EpisodeRecord[] = [];
  readonly events: WorkerEventRecord[] = [];
  /** Up to where batches came, stored or not. */
  seen = 0;
  otherLines = 0;
  malformedLines = 0;
  violations: Record<string, number> = {};
  samples: string[] = [];
  exit: Exit | undefined;
  readonly hellos: Hello[] = [];
  readonly tokens: string[] = [];
  readonly applied: { paused: boolean; maxRateHz: number; selfPaused: string }[] = [];
  heartbeats = 0;
  wish = { paused: false, maxRateHz: 0, selfPaused: "" };
  windowBytes = 8 << 20;
  /** By the word of acknowledgements; 0: as it was. */
  ackWindowBytes = 0;
  /** Batches are taken and neither stored nor acknowledged. */
  silent = false;
  /** The same from the first acknowledgement on. */
  silentOnceHeard = false;
  /** The answer to hello, instead of a welcome. */
  refusal: { code: status; message: string } | undefined;
  /** Drops this many exit reports before it acknowledges one. */
  forgetExits = 0;
  /** HOST:PORT or unix:PATH. */
  target = "";
  #server: Server | undefined;
  readonly #calls = new Set<Call>();

  /** On a free port; at a socket; or where it was before. */
  async start(at = "127.0.0.1:0"): Promise<void> {
    const server = new Server({
      "grpc.max_receive_message_length": 64 << 20,
      "grpc.max_send_message_length": 64 << 20,
    });
    server.addService(DEFINITION, { deliver: (call: Call) => this.#deliver(call) });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync(
        at,
        ServerCredentials.createInsecure(),
        (error, bound) => error === null ? resolve(bound) : reject(error),
      )
    );
    this.target = at.startsWith("unix:") ? at : `127.0.0.1:${port}`;
    this.#server = server;
  }

  /** As a crash would: connections are cut. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#calls.clear();
    if (server === undefined) return;
    const ended = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
    server.forceShutdown();
    await ended;
  }

  /** Ends the open streams; the server stays. */
  cut(): void {
    for (const call of this.#calls) {
      call.emit("error", { code: status.ABORTED, details: "cut" });
    }
    this.#calls.clear();
  }

  tell(message: Message): void {
    for (const call of this.#calls) this.#send(call, message);
  }

  control(wish: { paused: boolean; maxRateHz: number }): void {
    this.wish = { ...wish, selfPaused: "" };
    this.tell({ case: "control", value: this.wish });
  }

  #send(call: Call, message: Message): void {
    call.write(Buffer.from(toBinary(DaemonMessageSchema, create(DaemonMessageSchema, { message }))));
  }

  #deliver(call: Call): void {
    this.#calls.add(call);
    this.tokens.push(String(call.metadata.get("authorization")[0] ?? ""));
    call.on("data", (bytes: Buffer) => {
      if (!this.#calls.has(call)) return;
      try {
        this.#take(call, fromBinary(ProxyMessageSchema, bytes).message);
      } catch (error) {
        this.#fail(call, { code: status.ABORTED, message: String(error) });
      }
    });
    const gone = () => this.#calls.delete(call);
    call.on("end", gone);
    call.on("cancelled", gone);
    call.on("error", gone);
  }

  #fail(call: Call, { code, message }: { code: status; message: string }): void {
    this.#calls.delete(call);
    call.emit("error", { code, details: message });
  }

  #take(call: Call, message: ProxyMessage["message"]): void {
    switch (message.case) {
      case "hello":
        this.hellos.push(message.value);
        if (this.refusal !== undefined) return this.#fail(call, this.refusal);
        return this.#send(call, {
          case: "welcome",
          value: {
            protocol: "mosaic-ingest/1.0",
            journalPosition: BigInt(this.position),
            windowBytes: BigInt(this.windowBytes),
            control: this.wish,
          },
        });
      case "heartbeat":
        this.heartbeats++;
        return;
      case "control": {
        const { paused, maxRateHz, selfPaused } = message.value;
        this.applied.push({ paused, maxRateHz, selfPaused });
        return;
      }
      case "exit":
        if (this.forgetExits-- > 0) return this.#fail(call, { code: status.ABORTED, message: "forgotten" });
        assert.equal(Number(message.value.finalPosition), this.position, "the exit before the journal");
        this.exit = message.value;
        return this.#send(call, { case: "exitAck", value: {} });
      case "batch": {
        const { value } = message;
        this.seen = Math.max(this.seen, Number(value.toPosition));
        if (this.silent) return;
        assert.equal(Number(value.fromPosition), this.position, "a gap or a repetition");
        this.position = Number(value.toPosition);
        this.#store(json<StepColumns>(value.stepsJson) ?? { n: 0 });
        this.episodes.push(...json<EpisodeRecord[]>(value.episodesJson) ?? []);
        this.events.push(...json<WorkerEventRecord[]>(value.eventsJson) ?? []);
        this.otherLines += Number(value.otherLines);
        this.malformedLines += Number(value.malformedLines);
        for (const [rule, count] of Object.entries(value.violations)) {
          this.violations[rule] = (this.violations[rule] ?? 0) + Number(count);
        }
        this.samples.push(...value.malformedSamples, ...value.violationSamples);
        this.#send(call, {
          case: "ack",
          value: { position: BigInt(this.position), windowBytes: BigInt(this.ackWindowBytes) },
        });
        this.silent ||= this.silentOnceHeard;
      }
    }
  }

  #store(columns: StepColumns): void {
    for (let i = 0; i < columns.n; i++) {
      const agent = columns.agentId ?? "";
      this.steps.push({
        step: columns.step?.[i] ?? 0,
        action: columns.actionJson?.[i] ?? "",
        agent: typeof agent === "string" ? agent : agent[i]!,
        render: columns.renderPayloadJson?.[i] ?? "",
      });
    }
  }
}

function json<T>(bytes: Uint8Array): T | undefined {
  return bytes.length === 0 ? undefined : JSON.parse(new TextDecoder().decode(bytes));
}
