/**
 * Enters the newest metrics of a running run into the event log at intervals, for readers of
 * events.
 */
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { summaryOf } from "./ending.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";

/** At most one per run in so many milliseconds. */
const INTERVAL_MS = 30_000;
/** Metrics that one event names. */
const MOST_METRICS = 50;

export class MetricsEvents {
  readonly #context: { registry: Registry; telemetry: TelemetryLog; log: Logger };
  /** The metrics of each live run's last event. */
  readonly #last = new Map<string, { at: number; records: number }>();

  constructor(context: { registry: Registry; telemetry: TelemetryLog; log: Logger }) {
    this.#context = context;
  }

  /** May be called at any rate while the run is live. Unchanged numbers write no event. */
  update(row: RunRow, now = performance.now()): void {
    const { registry, telemetry, log } = this.#context;
    const last = this.#last.get(row.runId);
    if (last !== undefined && now - last.at < INTERVAL_MS) return;
    const summary = telemetry.summary(row.runId);
    const { steps, episodes, events } = summary;
    const records = steps + episodes + events;
    if (records === (last?.records ?? 0)) return;
    try {
      const metrics = telemetry.listSeries(row.runId).slice(0, MOST_METRICS).map((
        { name, last },
      ) => [name, last]);
      registry.replaceEvent(row.runId, "metrics", {
        ...summaryOf(summary),
        metrics: Object.fromEntries(metrics),
      });
    } catch (error) {
      log.debug({ run_id: row.runId, error: messageOf(error) }, "metrics event not written");
    }
    this.#last.set(row.runId, { at: now, records });
  }

  forget(runId: string): void {
    this.#last.delete(runId);
  }
}
