/** Traces as a real OTLP receiver gets them over HTTP. */
import assert from "node:assert/strict";
import { Registry } from "../../src/registry/registry.ts";
import { createLogger } from "../../src/base/log.ts";
import { traceIds, traceparent } from "../../src/observability/otlp/trace_context.ts";
import { exportWanted } from "../../src/observability/otlp/otlp.ts";
import { Tracing } from "../../src/observability/otlp/tracing.ts";
import { until } from "../harness/wait.ts";
import { newRun } from "../registry/fixture.ts";

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
  assert.equal(
    exportWanted(env({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: "true" }), "TRACES"),
    false,
  );
  const noMetrics = env({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_METRICS_EXPORTER: "none" });
  assert.deepEqual([exportWanted(noMetrics, "METRICS"), exportWanted(noMetrics, "TRACES")], [
    false,
    true,
  ]);
});

/** A receiver, a registry and a run in it, and what is exported of them. */
async function withReceiver(
  body: (
    scene: {
      spans: OtlpSpan[];
      registry: Registry;
      settings: Record<string, string>;
      clock: Clock;
    },
  ) => Promise<void>,
): Promise<void> {
  const spans: OtlpSpan[] = [];
  const receiver = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const body = await request.json();
      for (const resource of body.resourceSpans) {
        for (const scope of resource.scopeSpans) spans.push(...scope.spans);
      }
      return Response.json({});
    },
  );
  const settings: Record<string, string> = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.addr.port}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  };
  for (const [name, value] of Object.entries(settings)) Deno.env.set(name, value);
  const directory = Deno.makeTempDirSync();
  const clock: Clock = { now: 1_700_000_000_000 };
  const registry = Registry.open(`${directory}/registry.db`, { now: () => clock.now });
  try {
    await body({ spans, registry, settings, clock });
  } finally {
    registry.close();
    for (const name of Object.keys(settings)) Deno.env.delete(name);
    await receiver.shutdown();
    Deno.removeSync(directory, { recursive: true });
  }
}

interface Clock {
  now: number;
}

const RUN = "01HZZZZZZZZZZZZZZZZZZZZZZZ";

function insertRun(registry: Registry): void {
  registry.insert(newRun(1, { runId: RUN, name: "traced" }));
}

Deno.test("tracing: one trace from submit to end, spawns and events below the run", () =>
  withReceiver(async ({ spans, registry, settings, clock }) => {
    const tracing = await Tracing.start(
      registry,
      createLogger({ level: "error" }),
      (name) => settings[name],
    );
    const runId = RUN;
    insertRun(registry);
    clock.now += 1000;
    registry.apply(runId, { type: "spawned" });
    clock.now += 500;
    registry.apply(runId, { type: "registered" });
    clock.now += 9000;
    registry.apply(runId, { type: "failed", reason: "exit_code_3" }, { finishedAt: clock.now });
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
  }));

Deno.test("tracing: a registry that throws ends no loop, and what happened meanwhile is told", () =>
  withReceiver(async ({ spans, registry, settings }) => {
    let throwing = 1;
    const shaky = new Proxy(registry, {
      get(target, name) {
        if (name === "eventsSince" && throwing-- > 0) throw new Error("the registry is locked");
        const found = Reflect.get(target, name);
        return typeof found === "function" ? found.bind(target) : found;
      },
    });
    const failures: string[] = [];
    const log = createLogger({ level: "error", sinks: [(line) => void failures.push(line)] });
    const tracing = await Tracing.start(shaky, log, (name) => settings[name]);
    let told: Promise<void> | undefined;
    try {
      insertRun(registry);
      registry.apply(RUN, { type: "spawned" });
      await until(() => throwing < 0, { what: "the loop to be started again" });
    } finally {
      told = tracing.close();
    }
    await told;
    assert.ok(spans.some(({ name }) => name === "trainer.event.write"), failures.join());
    assert.match(failures.join(), /the registry is locked/);
  }));
