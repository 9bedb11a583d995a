/** Stores what an attempt's proxy delivers, and enters its lifecycle records into the event log. */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { IngestBatch } from "../../telemetry/batch.ts";
import { lesserBatches } from "../../telemetry/refused.ts";
import { refusesContent } from "../../telemetry/store/failures.ts";
import type { IngestResult, TelemetryLog } from "../../telemetry/types.ts";
import type { EventNotes } from "./event_notes.ts";
import type { BatchSamples } from "./session.ts";

/** Warnings with samples of what a worker wrote wrongly: at most one per this many milliseconds and run. */
const SAMPLE_INTERVAL_MS = 10_000;

export class Intake {
  readonly notes: EventNotes;
  readonly #run: { runId: string; attempt: number };
  readonly #telemetry: TelemetryLog;
  readonly #log: Logger;
  #sampledAt = -SAMPLE_INTERVAL_MS;

  constructor(
    run: { runId: string; attempt: number },
    { telemetry, log, notes }: { telemetry: TelemetryLog; log: Logger; notes: EventNotes },
  ) {
    this.#run = run;
    this.#telemetry = telemetry;
    this.#log = log;
    this.notes = notes;
  }

  /**
   * Stores the batch, or as much of it as the store accepts: what it refuses for its content it would refuse for ever.
   * @throws what has nothing to do with the content, such as a full disk
   */
  async store(batch: IngestBatch): Promise<{ result: IngestResult; batch: IngestBatch }> {
    const { runId, attempt } = this.#run;
    try {
      return { result: await this.#telemetry.deliver(runId, attempt, batch), batch };
    } catch (error) {
      if (!refusesContent(error)) throw error;
      const why = messageOf(error);
      for (const less of lesserBatches(batch, why)) {
        try {
          const result = await this.#telemetry.deliver(runId, attempt, less);
          const { from, to } = batch;
          this.#log.error({ run_id: runId, attempt, from, to, error: why }, "records are refused by the store");
          return { result, batch: less };
        } catch (again) {
          if (!refusesContent(again)) throw again;
        }
      }
      throw error;
    }
  }

  /** The lifecycle records of a batch that was just stored. */
  noteEvents(result: IngestResult & { type: "stored" }): void {
    if (result.events.length > 0) this.notes.stored(result.events, result.lastEvent);
  }

  /** Logs samples of lines that cannot be read or break their schema. */
  sample(batch: IngestBatch, samples: BatchSamples, now: number): void {
    const violations = Object.keys(batch.violations).length;
    if (batch.malformedLines === 0 && violations === 0) return;
    if (now - this.#sampledAt < SAMPLE_INTERVAL_MS) return;
    this.#sampledAt = now;
    this.#log.warn(
      { run_id: this.#run.runId, malformed: batch.malformedLines, violations: batch.violations, samples },
      "telemetry that cannot be read or breaks its schema",
    );
  }
}
