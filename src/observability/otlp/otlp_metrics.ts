/**
 * The metrics of `/metrics` over OTLP, off unless an endpoint is configured. The SDK's reader and
 * exporters send them; a metric producer reads them from the same source as `/metrics`, so that
 * names and values agree. Temporality is cumulative since the daemon's start.
 */
import { type HrTime, ValueType } from "@opentelemetry/api";
import {
  AggregationTemporality,
  type CollectionResult,
  DataPointType,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from "@opentelemetry/sdk-metrics";
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { VERSION } from "../../base/version.ts";
import { type Family, metricsOf } from "../daemon_metrics.ts";
import type { Observed } from "../observed.ts";
import { type Env, exporterFor, lastExport, millisecondsOf } from "./otlp.ts";
import { resourceOfDaemon } from "./otlp_resource.ts";

/** The standard's defaults. */
const INTERVAL_MS = 60_000;
const TIMEOUT_MS = 30_000;

const EXPORTERS = {
  "http/json": async () =>
    (await import("@opentelemetry/exporter-metrics-otlp-http")).OTLPMetricExporter,
  "http/protobuf": async () =>
    (await import("@opentelemetry/exporter-metrics-otlp-proto")).OTLPMetricExporter,
  "grpc": async () =>
    (await import("@opentelemetry/exporter-metrics-otlp-grpc")).OTLPMetricExporter,
};

export class OtlpMetrics {
  readonly #provider: MeterProvider;
  readonly #log: Logger;

  private constructor(provider: MeterProvider, log: Logger) {
    this.#provider = provider;
    this.#log = log;
  }

  /** @throws Error for an unsupported protocol or an invalid interval */
  static async start(daemon: Observed, log: Logger, env: Env): Promise<OtlpMetrics> {
    const interval = millisecondsOf(env, "OTEL_METRIC_EXPORT_INTERVAL", INTERVAL_MS);
    const reader = new PeriodicExportingMetricReader({
      exporter: await exporterFor<PushMetricExporter>(env, "METRICS", EXPORTERS),
      exportIntervalMillis: interval,
      exportTimeoutMillis: Math.min(
        interval,
        millisecondsOf(env, "OTEL_METRIC_EXPORT_TIMEOUT", TIMEOUT_MS),
      ),
      metricProducers: [producerOf(daemon)],
    });
    return new OtlpMetrics(
      new MeterProvider({ resource: resourceOfDaemon(), readers: [reader] }),
      log,
    );
  }

  /** Exports a last time, with a timeout of two seconds. */
  close(): Promise<void> {
    return lastExport(
      this.#provider.shutdown().catch((error: unknown) =>
        this.#log.warn({ error: messageOf(error) }, "metrics were not exported")
      ),
    );
  }
}

function producerOf(daemon: Observed): MetricProducer {
  const resource = resourceOfDaemon();
  return {
    collect(): Promise<CollectionResult> {
      const startTime = hrTime(daemon.startedAt);
      const endTime = hrTime(Date.now());
      const metrics = metricsOf(daemon).map((family) => metricOf(family, startTime, endTime));
      const scopeMetrics = [{ scope: { name: "mosaic", version: VERSION }, metrics }];
      return Promise.resolve({ resourceMetrics: { resource, scopeMetrics }, errors: [] });
    },
  };
}

function hrTime(unixMs: number): HrTime {
  return [Math.floor(unixMs / 1000), Math.round((unixMs % 1000) * 1e6)];
}

function metricOf(family: Family, startTime: HrTime, endTime: HrTime): MetricData {
  const { name, help, unit } = family;
  const common = {
    descriptor: { name, description: help, unit, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (family.type === "histogram") {
    const { bounds, counts, sum, count } = family.histogram;
    const value = { buckets: { boundaries: [...bounds], counts: [...counts] }, sum, count };
    return {
      ...common,
      dataPointType: DataPointType.HISTOGRAM,
      dataPoints: [{ startTime, endTime, attributes: {}, value }],
    };
  }
  const dataPoints = family.samples.map(({ labels, value }) => ({
    startTime,
    endTime,
    attributes: labels,
    value,
  }));
  return family.type === "counter"
    ? { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...common, dataPointType: DataPointType.GAUGE, dataPoints };
}
