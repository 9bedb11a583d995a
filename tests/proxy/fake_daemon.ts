/**
 * The daemon's end of the ingest stream, on the runtime's server, with a store in memory that
 * checks what it is given.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import {
  DaemonMessageSchema,
  type Exit,
  type Hello,
  type ProxyMessage,
  ProxyMessageSchema,
} from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { AnswerBody } from "../../src/rpc/connect/body.ts";
import { EnvelopedIncoming } from "../../src/rpc/connect/envelopes.ts";
import { endOfStream } from "../../src/rpc/connect/errors.ts";
import { envelope, STREAM_TYPE } from "../../src/wire/http/connect.ts";
import type {
  EpisodeRecord,
  StepColumns,
  WorkerEventRecord,
} from "../../src/gen/records/record_types.ts";

type Call = AnswerBody;
type Message = NonNullable<
  Exclude<MessageInitShape<typeof DaemonMessageSchema>, { $typeName: string }>["message"]
>;

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
  desired = { paused: false, maxRateHz: 0, selfPaused: "" };
  windowBytes = 8 << 20;
  /** By the word of acknowledgements; 0: as it was. */
  ackWindowBytes = 0;
  /** Batches are taken and neither stored nor acknowledged. */
  silent = false;
  /** The same from the first acknowledgement on. */
  silentOnceHeard = false;
  /** The answer to hello, instead of a welcome. */
  refusal: MosaicError | undefined;
  /** Drops this many exit reports before it acknowledges one. */
  forgetExits = 0;
  /** A batch with this action ends the connection with an internal error. */
  poison = "";
  /** HOST:PORT or unix:PATH. */
  target = "";
  #server: Deno.HttpServer | undefined;
  #abort = new AbortController();
  readonly #calls = new Set<Call>();

  /** What a daemon of this address writes into daemon.json. */
  get announced(): { socket: string; http: string } {
    const isSocket = this.target.startsWith("unix:");
    return {
      socket: isSocket ? this.target.slice("unix:".length) : "",
      http: isSocket ? "" : this.target,
    };
  }

  /** On a free port; at a socket; or where it was before. */
  start(at = "127.0.0.1:0", tls: { cert: string; key: string } | undefined = undefined): void {
    this.#abort = new AbortController();
    const common = { signal: this.#abort.signal, onListen: () => {} };
    const handler = (request: Request) => this.#deliver(request);
    if (at.startsWith("unix:")) {
      this.target = at;
      this.#server = Deno.serve({ path: at.slice("unix:".length), ...common }, handler);
      return;
    }
    const port = Number(at.slice(at.lastIndexOf(":") + 1));
    const server = Deno.serve({ hostname: "127.0.0.1", port, ...common, ...tls }, handler);
    this.target = `127.0.0.1:${(server.addr as Deno.NetAddr).port}`;
    this.#server = server;
  }

  /** As a crash would: connections are cut. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#calls.clear();
    this.#abort.abort();
    await server?.finished;
    if (this.target.startsWith("unix:")) {
      try {
        Deno.removeSync(this.target.slice("unix:".length));
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      }
    }
  }

  /** Ends the open streams; the server stays. */
  cut(): void {
    for (const call of [...this.#calls]) this.#fail(call, new MosaicError("aborted", "cut"));
  }

  tell(message: Message): void {
    for (const call of this.#calls) this.#send(call, message);
  }

  control(desired: { paused: boolean; maxRateHz: number }): void {
    this.desired = { ...desired, selfPaused: "" };
    this.tell({ case: "control", value: this.desired });
  }

  #send(call: Call, message: Message): void {
    call.write(envelope(toBinary(DaemonMessageSchema, create(DaemonMessageSchema, { message }))));
  }

  #deliver(request: Request): Response {
    const call = new AnswerBody(() => this.#calls.delete(call), 60_000);
    this.#calls.add(call);
    this.tokens.push(request.headers.get("authorization") ?? "");
    this.#read(call, request.body!);
    return new Response(call.stream, { headers: { "content-type": STREAM_TYPE } });
  }

  async #read(call: Call, body: ReadableStream<Uint8Array>): Promise<void> {
    const decode = (bytes: Uint8Array) => fromBinary(ProxyMessageSchema, bytes).message;
    const incoming = new EnvelopedIncoming(
      body,
      () => 64 << 20,
      decode,
      new AbortController().signal,
    );
    try {
      for (
        let messages = await incoming.take();
        messages.length > 0;
        messages = await incoming.take()
      ) {
        for (const message of messages) {
          if (!this.#calls.has(call)) return;
          try {
            this.#take(call, message);
          } catch (error) {
            this.#fail(call, new MosaicError("aborted", String(error)));
          }
        }
      }
    } catch {
      // The proxy has gone, or was cut.
    }
    this.#calls.delete(call);
  }

  #fail(call: Call, error: MosaicError): void {
    this.#calls.delete(call);
    call.end(endOfStream(error));
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
            control: this.desired,
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
        if (this.forgetExits-- > 0) {
          return this.#fail(call, new MosaicError("aborted", "forgotten"));
        }
        assert.equal(
          Number(message.value.finalPosition),
          this.position,
          "the exit before the journal",
        );
        this.exit = message.value;
        return this.#send(call, { case: "exitAck", value: {} });
      case "batch": {
        const { value } = message;
        this.seen = Math.max(this.seen, Number(value.toPosition));
        if (this.silent) return;
        if (this.poison !== "" && new TextDecoder().decode(value.stepsJson).includes(this.poison)) {
          return this.#fail(call, new MosaicError("internal", "no batch with poison is stored"));
        }
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
