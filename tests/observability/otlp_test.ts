/** Traces and metrics of a real daemon as a receiver of OTLP gets them, by every protocol. */
import assert from "node:assert/strict";
import { traceIds } from "../../src/observability/otlp/trace_context.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { otlpGrpcReceiver, otlpReceiver } from "./otlp_receiver.ts";

const PROTOCOLS = {
  "http/protobuf": ["/v1/metrics application/x-protobuf", "/v1/traces application/x-protobuf"],
  "http/json": ["/v1/metrics application/json", "/v1/traces application/json"],
  grpc: [
    "opentelemetry.proto.collector.metrics.v1.MetricsService grpc",
    "opentelemetry.proto.collector.trace.v1.TraceService grpc",
  ],
};

for (const [protocol, contentTypes] of Object.entries(PROTOCOLS)) {
  Deno.test(`OTLP by ${protocol}: a run is one trace that its worker joins, and the figures are those of /metrics`, async () => {
    await using receiver = protocol === "grpc" ? await otlpGrpcReceiver() : otlpReceiver();
    await using daemon = await TestDaemon.start({
      gpus: "2",
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_SERVICE_NAME: "mosaic-under-test",
        OTEL_METRIC_EXPORT_INTERVAL: "500",
        OTEL_BSP_SCHEDULE_DELAY: "200",
      },
    });
    const script = `printf '{"event_type":"step","step_index":0,"episode":0,"reward":1}\\n'
      printf '{"event":"heartbeat","payload":{"parent":"%s"}}\\n' "$TRACEPARENT"; echo "$TRACEPARENT" >"$MOSAIC_RUN_DIR/parent"`;
    const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
    await untilState(daemon, run, "TERMINATED");

    const spans = await until(() => {
      const names = receiver.spans.map((span) => span.name);
      return names.includes("trainer.run") ? receiver.spans : undefined;
    }, {
      what: "the run's span",
      state: () => ({ spans: receiver.spans, daemon: daemon.output().slice(-2000) }),
    });
    const { traceId, runSpanId } = traceIds(run);
    for (const span of spans) {
      assert.equal(span.traceId, traceId);
      assert.equal(span.parentSpanId, span.name === "trainer.run" ? "" : runSpanId, span.name);
    }
    const names = new Set(spans.map((span) => span.name));
    assert.deepEqual([...names].sort(), [
      "trainer.event.write",
      "trainer.run",
      "trainer.worker.spawn",
    ]);
    const given = Deno.readTextFileSync(`${daemon.layout.runDir("custom_scripts", run)}/parent`)
      .trim();
    assert.equal(given, `00-${traceId}-${runSpanId}-01`);

    const points = (name: string) => receiver.metrics.get(name)?.points ?? [];
    await until(
      () =>
        points("mosaic_runs").some((p) => p.attributes === "state=TERMINATED" && p.value === 1) &&
        points("mosaic_queue_duration_seconds").some((p) => p.value === 1),
      { what: "the ended run among the metrics", state: () => [...receiver.metrics] },
    );
    assert.deepEqual(points("mosaic_gpu_slots").find((p) => p.attributes === "use=free")?.value, 2);
    assert.equal(receiver.metrics.get("mosaic_ingest_records_total")?.type, "sum");
    const delay = receiver.metrics.get("mosaic_queue_duration_seconds")!;
    assert.deepEqual([delay.type, delay.unit, delay.points[0]!.boundaries[0]], [
      "histogram",
      "s",
      0.05,
    ]);
    const text = await (await fetch(`http://${daemon.http}/metrics`)).text();
    const scraped = [...text.matchAll(/^# TYPE (\S+) /gm)].map((match) => match[1]!).sort();
    assert.deepEqual([...receiver.metrics.keys()].sort(), scraped);

    assert.deepEqual([...receiver.contentTypes].sort(), contentTypes);
    assert.deepEqual([...receiver.serviceNames], ["mosaic-under-test"]);
    assert.equal(await daemon.stop(), 0);
  });
}

Deno.test("OTLP: a collector that is not there costs a daemon nothing but a warning", async () => {
  await using daemon = await TestDaemon.start({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_METRIC_EXPORT_INTERVAL: "100" },
  });
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", "exit 0"] }));
  await untilState(daemon, run, "TERMINATED");
  await until(() => daemon.output().includes("OpenTelemetry: an export failed"), {
    what: "the warning",
  });
  assert.equal(await daemon.stop(), 0);
});

Deno.test("OTLP: a protocol that there is not is told with those that there are, and nothing else is hurt", async () => {
  await using daemon = await TestDaemon.start({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/thrift",
    },
  });
  const told =
    'OTEL_EXPORTER_OTLP_PROTOCOL is \\"http/thrift\\": give one of http/protobuf, http/json, grpc';
  await until(() => daemon.output().includes(told), {
    what: "the error",
    state: () => daemon.output(),
  });
});
