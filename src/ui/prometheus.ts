/** `/metrics`: figures of the daemon in Prometheus' text format, read when scraped. */
import type { Gauge as GaugeType, Registry as RegistryType } from "prom-client";
import type { Core } from "../core/core.ts";
import { Layout } from "../layout.ts";
import { RUN_STATES, RUNNING_STATES } from "../lifecycle/lifecycle.ts";

/** Figures of other parts of the daemon, by full metric name. */
export type ExtraFigures = () => { name: string; help: string; value: number }[];

export interface PageFigures {
  streams(): number;
  eventLoopDelayMax(): number;
  extra: ExtraFigures | undefined;
}

function fileBytes(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0;
  }
}

/** Loads the library at the first scrape: a daemon that nobody scrapes starts without it. */
export async function createMetrics(core: Core, figures: PageFigures): Promise<RegistryType> {
  const { Counter, Gauge, Registry } = (await import("prom-client")).default;
  const registry = new Registry();
  const gauge = <L extends string>(
    name: string,
    help: string,
    read: (g: GaugeType<L>) => void,
    labelNames: L[] = [],
  ) => {
    new Gauge({
      name: `mosaic_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        read(this);
      },
    });
  };
  const value = (name: string, help: string, read: () => number) => gauge(name, help, (g) => g.set(read()));

  gauge("info", "Version of the daemon; always 1.", (g) => g.set({ version: core.version }, 1), ["version"]);
  value("start_time_seconds", "When the daemon started, Unix time.", () => core.startedAt / 1000);
  gauge("runs", "Runs by state.", (g) => {
    const counts = core.registry.countByState();
    for (const state of RUN_STATES) g.set({ state }, counts[state] ?? 0);
  }, ["state"]);
  for (const kind of ["steps", "episodes"] as const) {
    new Counter({
      name: `mosaic_${kind}_stored_total`,
      help: `Records of kind ${kind} stored since the daemon started.`,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(core.telemetry.storedSinceStart()[kind]);
      },
    });
  }
  const running = () => core.list({ states: RUNNING_STATES }, { limit: 500 }).runs.map((r) => r.telemetry);
  value(
    "ingest_steps_per_second",
    "Steps per second stored for all running runs.",
    () => running().reduce((n, t) => n + t.stepsPerSecond, 0),
  );
  value(
    "backlog_bytes",
    "Journal bytes of running runs that are not stored yet.",
    () => running().reduce((n, t) => n + Math.max(0, t.journalSize - t.journalPosition), 0),
  );
  gauge("gpu_slots", "GPU slots by use.", (g) => {
    const slots = core.registry.gpuSlots();
    const used = slots.filter((s) => s.runId !== null).length;
    g.set({ use: "used" }, used);
    g.set({ use: "free" }, slots.length - used);
  }, ["use"]);
  gauge("database_bytes", "Size of the database files and their write-ahead logs.", (g) => {
    const layout = new Layout(core.host().stateDir);
    for (const [database, path] of [["registry", layout.registryDb], ["telemetry", layout.telemetryDb]] as const) {
      g.set({ database, file: "main" }, fileBytes(path));
      g.set({ database, file: "wal" }, fileBytes(`${path}-wal`));
    }
  }, ["database", "file"]);
  value("telemetry_bytes", "Bytes that telemetry takes on disk.", () => core.telemetry.fileBytes());
  value(
    "telemetry_writable",
    "Whether the last write of telemetry succeeded.",
    () => core.telemetry.writable() ? 1 : 0,
  );
  value("disk_available_bytes", "Free space where the state directory lies.", () => core.host().diskAvailableBytes);
  value("page_streams", "Live connections of the status page.", figures.streams);
  value("event_loop_delay_seconds", "Longest delay of the event loop in the last 30 s.", figures.eventLoopDelayMax);
  value("process_resident_memory_bytes", "Resident memory of the daemon.", () => Deno.memoryUsage().rss);
  value("transitions_head", "Newest sequence number of state transitions.", () => core.registry.transitionHead());
  for (const { name, help } of figures.extra?.() ?? []) {
    value(name.replace(/^mosaic_/, ""), help, () => figures.extra!().find((f) => f.name === name)?.value ?? 0);
  }
  return registry;
}
