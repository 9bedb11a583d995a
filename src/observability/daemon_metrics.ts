/**
 * The daemon's metrics, for `/metrics` and OTLP: names by Prometheus' conventions, base units,
 * labels from closed lists. No label names a run, because there are thousands of runs; a run's own
 * numbers are in its telemetry. docs/reference/observability.md lists all metrics, and a test
 * compares that list with this one.
 */
import { Layout } from "../base/layout.ts";
import { fileBytes } from "../os/files/files.ts";
import { RUN_STATES } from "../registry/lifecycle/lifecycle.ts";
import type { Observed } from "./observed.ts";
import type { Histogram, HistogramSnapshot } from "./histogram.ts";

export type Labels = Record<string, string>;

interface Described {
  name: string;
  help: string;
  /** UCUM unit, for OTLP. */
  unit: "s" | "By" | "1";
}

export type Family =
  & Described
  & (
    | { type: "counter" | "gauge"; samples: { labels: Labels; value: number }[] }
    | { type: "histogram"; histogram: HistogramSnapshot }
  );

/**
 * All metrics, read now, with a number of queries and system calls that does not depend on the
 * number of runs.
 */
export function metricsOf(daemon: Observed): Family[] {
  return [
    ...ofRuns(daemon),
    ...ofTelemetry(daemon),
    ...ofReaders(daemon),
    ...ofStorage(daemon),
    ...ofProcess(daemon),
  ];
}

function gauge(name: string, help: string, unit: Described["unit"], value: number): Family {
  return { name: `mosaic_${name}`, help, unit, type: "gauge", samples: [{ labels: {}, value }] };
}

function counter(name: string, help: string, unit: Described["unit"], value: number): Family {
  return { name: `mosaic_${name}`, help, unit, type: "counter", samples: [{ labels: {}, value }] };
}

function labelled(
  type: "counter" | "gauge",
  name: string,
  help: string,
  unit: Described["unit"],
  samples: [Labels, number][],
): Family {
  return {
    name: `mosaic_${name}`,
    help,
    unit,
    type,
    samples: samples.map(([labels, value]) => ({ labels, value })),
  };
}

function histogram(name: string, help: string, of: Histogram): Family {
  return { name: `mosaic_${name}`, help, unit: "s", type: "histogram", histogram: of.snapshot() };
}

function ofRuns(daemon: Observed): Family[] {
  const { activity, runs } = daemon;
  const counts = runs.countByState();
  const slots = runs.gpus.slots();
  const used = slots.filter((slot) => slot.runId !== null || slot.shares.length > 0).length;
  const by = (key: string, entries: [string, number][]) =>
    entries.map(([value, count]): [Labels, number] => [{ [key]: value }, count]);
  return [
    labelled(
      "gauge",
      "runs",
      "Runs on record, by state.",
      "1",
      by("state", RUN_STATES.map((s) => [s, counts[s] ?? 0])),
    ),
    labelled(
      "counter",
      "run_transitions_total",
      "Transitions of runs, by the state entered.",
      "1",
      by("to", activity.transitions.entries()),
    ),
    labelled(
      "counter",
      "run_failures_total",
      "Attempts that failed, by the class of their reason.",
      "1",
      by("reason", activity.failures.entries()),
    ),
    labelled(
      "counter",
      "submissions_total",
      "Submissions, by result.",
      "1",
      by("result", activity.submissions.entries()),
    ),
    histogram(
      "submit_duration_seconds",
      "From a submission's arrival to its answer.",
      activity.submitSeconds,
    ),
    histogram(
      "queue_duration_seconds",
      "From submission (or retry) to the decision to start, back-off included.",
      activity.queueSeconds,
    ),
    histogram(
      "start_duration_seconds",
      "From that decision to the registration of the proxy.",
      activity.startSeconds,
    ),
    histogram(
      "first_record_duration_seconds",
      "From the registration to the worker's first record.",
      activity.firstRecordSeconds,
    ),
    labelled("gauge", "gpu_slots", "GPU slots of the host, by use.", "1", [
      [{ use: "used" }, used],
      [{ use: "free" }, slots.length - used],
    ]),
  ];
}

function ofTelemetry(daemon: Observed): Family[] {
  const { activity, records } = daemon;
  const stored = records.storedSinceStart();
  let backlog = 0;
  for (const { journalSize, position } of activity.proxies) {
    backlog += Math.max(0, journalSize - position);
  }
  const rings = records.rings();
  return [
    labelled("counter", "ingest_records_total", "Records stored, by kind.", "1", [
      [{ kind: "steps" }, stored.steps],
      [{ kind: "episodes" }, stored.episodes],
      [{ kind: "events" }, stored.events],
    ]),
    histogram(
      "ingest_ack_duration_seconds",
      "From the arrival of a batch to its acknowledgement; the count is that of acknowledgements.",
      activity.ackSeconds,
    ),
    counter(
      "ingest_acknowledged_bytes_total",
      "Journal bytes acknowledged to proxies.",
      "By",
      activity.acknowledgedBytes,
    ),
    counter(
      "ingest_malformed_lines_total",
      "Lines of workers that were meant as records and cannot be read.",
      "1",
      activity.malformedLines,
    ),
    counter(
      "ingest_schema_violations_total",
      "Records that break their run's telemetry schema.",
      "1",
      activity.schemaViolations,
    ),
    gauge("proxies_connected", "Proxies that are connected.", "1", activity.proxies.size),
    gauge(
      "backlog_bytes",
      "Output that connected proxies have and that is not stored yet.",
      "By",
      backlog,
    ),
    gauge("rings", "Runs whose newest records are held in memory.", "1", rings.runs),
    gauge("ring_bytes", "Memory of these, about.", "By", rings.bytes),
  ];
}

function ofReaders(daemon: Observed): Family[] {
  const { activity, runs } = daemon;
  const following = activity.subscribers.following();
  return [
    labelled(
      "gauge",
      "subscribers",
      "Open streams, by transport and by the data that they follow.",
      "1",
      following.map(({ via, stream, subscribers }) => [{ via, stream }, subscribers]),
    ),
    labelled(
      "gauge",
      "subscriber_lag_records",
      "Records that the subscriber furthest behind has not been sent.",
      "1",
      following.flatMap(({ via, stream, lag }): [Labels, number][] =>
        lag === undefined ? [] : [[{ via, stream }, lag]]
      ),
    ),
    labelled(
      "counter",
      "rpc_calls_total",
      "gRPC calls that have ended, by method and status.",
      "1",
      activity.rpcCalls.entries().map(([key, count]): [Labels, number] => {
        const [method, code] = key.split(" ") as [string, string];
        return [{ method, code }, count];
      }),
    ),
    labelled(
      "counter",
      "webhook_deliveries_total",
      "Attempts to deliver an event to a webhook, by result.",
      "1",
      activity.webhooks.entries().map(([result, count]) => [{ result }, count]),
    ),
    counter("events_total", "Events in the log, all that there ever were.", "1", runs.eventHead()),
  ];
}

function ofStorage(daemon: Observed): Family[] {
  const { stateDir, diskBytes, diskAvailableBytes } = daemon.host();
  const layout = new Layout(stateDir);
  const databases = [["registry", layout.registryDb], ["telemetry", layout.telemetryDb]] as const;
  return [
    labelled(
      "gauge",
      "database_bytes",
      "Size of a database's file, and of its write-ahead log.",
      "By",
      databases.flatMap(([database, path]): [Labels, number][] => [
        [{ database, file: "main" }, fileBytes(path)],
        [{ database, file: "wal" }, fileBytes(`${path}-wal`)],
      ]),
    ),
    gauge(
      "telemetry_writable",
      "Whether the last write of telemetry succeeded.",
      "1",
      daemon.records.writable() ? 1 : 0,
    ),
    gauge("disk_bytes", "Size of the file system of the state directory.", "By", diskBytes),
    gauge("disk_available_bytes", "Free space in it.", "By", diskAvailableBytes),
  ];
}

function ofProcess(daemon: Observed): Family[] {
  const { user, system } = process.cpuUsage();
  const { eventLoop, closedGrpcConnections } = daemon.activity;
  const { rss, heapTotal, heapUsed } = Deno.memoryUsage();
  const standard = (family: Family): Family => ({
    ...family,
    name: family.name.replace(/^mosaic_/, ""),
  });
  return [
    labelled("gauge", "build_info", "Version of the daemon; always 1.", "1", [[{
      version: daemon.version,
    }, 1]]),
    histogram(
      "event_loop_delay_seconds",
      "How late timers are, sampled four times a second.",
      eventLoop.delays,
    ),
    gauge(
      "event_loop_delay_max_seconds",
      "The longest of the last half minute.",
      "s",
      eventLoop.recentMax(),
    ),
    counter(
      "grpc_closed_connections_total",
      "Closed gRPC connections; the runtime keeps about 22 KiB of each.",
      "1",
      closedGrpcConnections,
    ),
    standard(
      gauge(
        "process_start_time_seconds",
        "When the daemon started, Unix time.",
        "s",
        daemon.startedAt / 1000,
      ),
    ),
    standard(gauge("process_resident_memory_bytes", "Resident memory of the daemon.", "By", rss)),
    gauge("heap_bytes", "Memory that the JavaScript heap of the daemon holds.", "By", heapTotal),
    gauge(
      "heap_used_bytes",
      "Used part of the JavaScript heap, including garbage that is not collected yet.",
      "By",
      heapUsed,
    ),
    standard(
      counter(
        "process_cpu_seconds_total",
        "Processor time of the daemon.",
        "s",
        (user + system) / 1e6,
      ),
    ),
  ];
}
