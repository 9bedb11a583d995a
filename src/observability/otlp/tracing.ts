/**
 * Traces of runs by OpenTelemetry, off unless an OTLP endpoint is configured (the standard OTEL_*
 * variables).
 *
 * Spans are created afterwards from the event log and the transitions: `trainer.run` from submit to
 * end, its children `trainer.worker.spawn` per attempt and `trainer.event.write` per event. So a
 * restart of the daemon loses no span, and tracing costs nothing on the hot path.
 */
import { type Context, ROOT_CONTEXT, SpanStatusCode, trace, TraceFlags } from "@opentelemetry/api";
import {
  BatchSpanProcessor,
  type IdGenerator,
  type SpanExporter,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { RunReader } from "../../registry/run_reader.ts";
import type { EventRow, RunRow } from "../../registry/row_types.ts";
import type { Logger } from "../../base/log.ts";
import { messageOf } from "../../base/errors.ts";
import { supervised } from "../supervised.ts";
import { VERSION } from "../../base/version.ts";
import { type Env, exporterFor, lastExport } from "./otlp.ts";
import { resourceOfDaemon } from "./otlp_resource.ts";
import { spawnSpanId, traceIds } from "./trace_context.ts";

const EXPORTERS = {
  "http/json": async () =>
    (await import("@opentelemetry/exporter-trace-otlp-http")).OTLPTraceExporter,
  "http/protobuf": async () =>
    (await import("@opentelemetry/exporter-trace-otlp-proto")).OTLPTraceExporter,
  "grpc": async () => (await import("@opentelemetry/exporter-trace-otlp-grpc")).OTLPTraceExporter,
};

/** An id generator that returns the ids set for the next span. */
class PresetIds implements IdGenerator {
  traceId = "";
  spanId = "";
  generateTraceId(): string {
    return this.traceId;
  }
  generateSpanId(): string {
    return this.spanId;
  }
}

const ENDED = new Set(["completed", "failed", "cancelled"]);

export class Tracing {
  readonly #runs: RunReader;
  readonly #log: Logger;
  readonly #ids = new PresetIds();
  readonly #provider: TracerProvider;
  readonly #stop = new AbortController();
  readonly #following: Promise<void>;
  /** The last exported event. */
  #seq: number;

  private constructor(runs: RunReader, log: Logger, exporter: SpanExporter) {
    this.#runs = runs;
    this.#log = log;
    this.#provider = new TracerProvider({
      resource: resourceOfDaemon(),
      idGenerator: this.#ids,
      spanProcessors: [new BatchSpanProcessor({ exporter })],
    });
    this.#seq = runs.eventHead();
    this.#following = supervised("traces", () => this.#follow(), {
      log,
      signal: this.#stop.signal,
    });
  }

  /** @throws Error for a protocol that is not supported. */
  static async start(runs: RunReader, log: Logger, env: Env): Promise<Tracing> {
    return new Tracing(runs, log, await exporterFor<SpanExporter>(env, "TRACES", EXPORTERS));
  }

  /** Exports the remaining spans, with a timeout of two seconds. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#following;
    await lastExport(
      this.#provider.shutdown().catch((error: unknown) =>
        this.#log.warn({ error: messageOf(error) }, "traces were not exported")
      ),
    );
  }

  async #follow(): Promise<void> {
    for (;;) {
      const page = this.#runs.eventsSince(this.#seq, { limit: 200 });
      for (const event of page) {
        // First, so that an event that cannot be exported is not tried again for ever.
        this.#seq = event.seq;
        this.#exportEvent(event);
      }
      if (page.length > 0) continue;
      if (this.#stop.signal.aborted) return;
      await this.#runs.waitEventsBeyond(this.#seq, this.#stop.signal);
    }
  }

  #exportEvent(event: EventRow): void {
    const { traceId, runSpanId } = traceIds(event.runId);
    const below = this.#parent(traceId, runSpanId);
    this.#ids.spanId = crypto.randomUUID().replaceAll("-", "").slice(0, 16);
    this.#tracer().startSpan("trainer.event.write", {
      startTime: event.at,
      attributes: {
        "mosaic.run_id": event.runId,
        "mosaic.event.kind": event.kind,
        "mosaic.event.seq": event.seq,
      },
    }, below).end(event.at);
    if (!ENDED.has(event.kind)) return;
    const run = this.#runs.get(event.runId);
    if (run !== undefined) this.#exportRun(run);
  }

  #exportRun(run: RunRow): void {
    const { traceId, runSpanId } = traceIds(run.runId);
    const attributes = {
      "mosaic.run_id": run.runId,
      "mosaic.run_name": run.name,
      "mosaic.attempts": run.attempt,
      "mosaic.outcome": run.outcome ?? "",
    };
    const transitions = this.#runs.transitions(run.runId);
    for (const spawned of transitions.filter((t) => t.to === "HANDSHAKE")) {
      const after = transitions.find((t) => t.seq > spawned.seq);
      this.#ids.spanId = spawnSpanId(run.runId, spawned.attempt);
      const span = this.#tracer().startSpan("trainer.worker.spawn", {
        startTime: spawned.at,
        attributes: { ...attributes, "mosaic.attempt": spawned.attempt },
      }, this.#parent(traceId, runSpanId));
      if (after?.to === "FAULTED") {
        span.setStatus({ code: SpanStatusCode.ERROR, message: after.reason ?? "" });
      }
      span.end(after?.at ?? spawned.at);
    }
    this.#ids.traceId = traceId;
    this.#ids.spanId = runSpanId;
    const span = this.#tracer().startSpan(
      "trainer.run",
      { startTime: run.createdAt, attributes },
      ROOT_CONTEXT,
    );
    if (run.outcome === "failed") {
      span.setStatus({ code: SpanStatusCode.ERROR, message: run.reason ?? "" });
    }
    span.end(run.finishedAt ?? run.updatedAt);
  }

  #tracer() {
    return this.#provider.getTracer("mosaic", VERSION);
  }

  #parent(traceId: string, spanId: string): Context {
    return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED });
  }
}
