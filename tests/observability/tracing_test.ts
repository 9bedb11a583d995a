/** Traces as a real OTLP receiver gets them over HTTP. */
import assert from "node:assert/strict";
import { Registry } from "../../src/registry/registry.ts";
import { createLogger } from "../../src/base/log.ts";
import { traceIds, traceparent } from "../../src/observability/trace_context.ts";
import { exportWanted } from "../../src/observability/otlp.ts";
import { Tracing } from "../../src/observability/tracing.ts";

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status?: { code?: number; message?: string };
}

Deno.test("tracing: off unless an endpoint is configured, and when it is disabled", () => {
  const env = (values: Record<string, string>) => (name: string) => values[name];
  const OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:4318";
  assert.equal(exportWanted(env({}), "TRACES"), false);
  assert.equal(exportWanted(env({ OTEL_EXPORTER_OTLP_ENDPOINT }), "TRACES"), true);
  assert.equal(exportWanted(env({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: "true" }), "TRACES"), false);
  const noMetrics = env({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_METRICS_EXPORTER: "none" });
  assert.deepEqual([exportWanted(noMetrics, "METRICS"), exportWanted(noMetrics, "TRACES")], [false, true]);
});

Deno.test("tracing: one trace from submit to end, spawns and events below the run", async () => {
  const spans: OtlpSpan[] = [];
  const receiver = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const body = await request.json();
    for (const resource of body.resourceSpans) {
      for (const scope of resource.scopeSpans) spans.push(...scope.spans);
    }
    return Response.json({});
  });
  const settings: Record<string, string> = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.addr.port}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  };
  for (const [name, value] of Object.entries(settings)) Deno.env.set(name, value);
  const directory = Deno.makeTempDirSync();
  let now = 1_700_000_000_000;
  const registry = Registry.open(`${directory}/registry.db`, { now: () => now });
  try {
    const tracing = await Tracing.start(registry, createLogger({ level: "error" }), (name) => settings[name]);
    const runId = "01HZZZZZZZZZZZZZZZZZZZZZZZ";
    registry.insert({
      runId,
      name: "traced",
      digest: "d",
      maxAttempts: 1,
      priority: 0,
      tags: [],
      baseDir: "runs",
      configJson: "{}",
      gpusRequested: 0,
      gpusMandatory: false,
      workerId: "w",
      agentId: "a",
    });
    now += 1000;
    registry.apply(runId, { type: "spawned" });
    now += 500;
    registry.apply(runId, { type: "registered" });
    now += 9000;
    registry.apply(runId, { type: "failed", reason: "exit_code_3" }, { finishedAt: now });
    registry.appendEvent(runId, "failed", { reason: "exit_code_3" });
    await tracing.close();

    const { traceId, runSpanId } = traceIds(runId);
    assert.ok(spans.every((span) => span.traceId === traceId));
    const run = spans.find((span) => span.name === "trainer.run")!;
    assert.equal(run.spanId, runSpanId);
    assert.equal(run.parentSpanId || undefined, undefined);
    assert.equal(BigInt(run.endTimeUnixNano) - BigInt(run.startTimeUnixNano), 10_500_000_000n);
    assert.deepEqual([run.status!.code, run.status!.message], [2, "exit_code_3"]);
    const spawn = spans.find((span) => span.name === "trainer.worker.spawn")!;
    assert.equal(spawn.parentSpanId, runSpanId);
    assert.equal(BigInt(spawn.endTimeUnixNano) - BigInt(spawn.startTimeUnixNano), 500_000_000n);
    const events = spans.filter((span) => span.name === "trainer.event.write");
    assert.ok(events.length >= 4 && events.every((span) => span.parentSpanId === runSpanId));
    assert.equal(new Set(spans.map((span) => span.spanId)).size, spans.length);
    assert.equal(traceparent(runId), `00-${traceId}-${runSpanId}-01`);
  } finally {
    registry.close();
    for (const name of Object.keys(settings)) Deno.env.delete(name);
    await receiver.shutdown();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("tracing: a protocol that is not supported is named with those that are", async () => {
  const registry = Registry.open(":memory:");
  const env = (name: string) => name === "OTEL_EXPORTER_OTLP_PROTOCOL" ? "carrier-pigeon" : undefined;
  await assert.rejects(Tracing.start(registry, createLogger(), env), /PROTOCOL is "carrier-pigeon": give one of http/);
  registry.close();
});
