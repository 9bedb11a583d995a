/** Stores what an attempt's proxy delivers, and enters its lifecycle records into the event log. */
import { messageOf } from "../../../base/errors.ts";
import { parsedObject } from "../../../base/text/json_text.ts";
import type { Logger } from "../../../base/log.ts";
import type { IngestBatch } from "../../../records/ingest_batch.ts";
import {
  type Announcement,
  announcementOf,
  placesOf,
  referenceOf,
} from "../../../registry/artifacts/announced.ts";
import { lesserBatches } from "../../../records/refused.ts";
import { refusesContent } from "../../../telemetry/blocks/failures.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import type { IngestResult } from "../../../records/stored.ts";
import type { BatchSamples } from "../state/connected_proxy.ts";
import type { EventEntries } from "./event_entries.ts";
import { eventsFromNewest, FILE_KINDS } from "./worker_events.ts";

/** Warnings with samples of malformed lines: at most one per this many milliseconds and run. */
const SAMPLE_INTERVAL_MS = 10_000;
/** Announced files that are kept in memory; beyond it the oldest are dropped. */
const MAX_ANNOUNCED = 2000;

interface IntakeContext {
  telemetry: TelemetryLog;
  log: Logger;
  entries: EventEntries;
  /** The run's directory and its worker's. */
  directories: readonly string[];
}

export class Intake {
  readonly entries: EventEntries;
  readonly #run: { runId: string; attempt: number };
  readonly #telemetry: TelemetryLog;
  readonly #log: Logger;
  readonly #directories: readonly string[];
  /** The worker's records about files, by path; undefined until its proxy finds a file. */
  #announced: Map<string, Announcement> | undefined;
  #sampledAt = -SAMPLE_INTERVAL_MS;

  constructor(
    run: { runId: string; attempt: number },
    { telemetry, log, entries, directories }: IntakeContext,
  ) {
    this.#run = run;
    this.#telemetry = telemetry;
    this.#log = log;
    this.entries = entries;
    this.#directories = directories;
  }

  /**
   * Stores the batch, or as much of it as the store accepts: a record that is refused for its
   * content would be refused every time.
   * @throws errors that do not depend on the content, such as a full disk
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
          this.#log.error(
            { run_id: runId, attempt, from, to, error: why },
            "records are refused by the store",
          );
          return { result, batch: less };
        } catch (again) {
          if (!refusesContent(again)) throw again;
        }
      }
      throw error;
    }
  }

  /**
   * A batch of found files without those that the worker has announced: they have a record already.
   * The proxy knows size and time; kind and step come from the worker.
   */
  withoutAnnounced(batch: IngestBatch): IngestBatch {
    if (!batch.events.some((event) => referenceOf(event) !== undefined)) return batch;
    const announced = this.#announced ??= this.#announcedSoFar();
    const events = batch.events.filter(({ kind, dataJson }) => {
      const found = parsedObject(dataJson) ?? {};
      const announcement = referenceOf({ dataJson }) === undefined
        ? undefined
        : announced.get(String(found.path));
      if (announcement === undefined) return true;
      this.entries.namesFile({
        kind,
        dataJson: JSON.stringify({ ...found, kind: announcement.kind, step: announcement.step }),
      });
      return false;
    });
    return { ...batch, events };
  }

  #announcedSoFar(): Map<string, Announcement> {
    const announced = new Map<string, Announcement>();
    const { runId, attempt } = this.#run;
    const files = [];
    for (const event of eventsFromNewest(this.#telemetry, runId, FILE_KINDS, attempt)) {
      if (announcementOf(event) !== undefined && files.push(event) >= MAX_ANNOUNCED) break;
    }
    for (const event of files.reverse()) this.#remember(announced, event);
    return announced;
  }

  #remember(announced: Map<string, Announcement>, event: { kind: string; dataJson: string }): void {
    const announcement = announcementOf(event);
    if (announcement === undefined || referenceOf(event) !== undefined) return;
    for (const place of placesOf(announcement.path, this.#directories)) {
      announced.set(place, announcement);
    }
    for (const oldest of announced.keys()) {
      if (announced.size <= MAX_ANNOUNCED) break;
      announced.delete(oldest);
    }
  }

  /** The lifecycle records of a batch that was just stored. */
  enterEvents(result: IngestResult & { type: "stored" }): void {
    const announced = this.#announced;
    if (announced !== undefined) {
      for (const event of result.events) this.#remember(announced, event);
    }
    if (result.events.length > 0) this.entries.stored(result.events, result.lastEvent);
  }

  /** Logs samples of lines that cannot be read or violate their schema. */
  sample(batch: IngestBatch, samples: BatchSamples, now: number): void {
    const violations = Object.keys(batch.violations).length;
    if (batch.malformedLines === 0 && violations === 0) return;
    if (now - this.#sampledAt < SAMPLE_INTERVAL_MS) return;
    this.#sampledAt = now;
    this.#log.warn(
      {
        run_id: this.#run.runId,
        malformed: batch.malformedLines,
        violations: batch.violations,
        samples,
      },
      "telemetry that cannot be read or breaks its schema",
    );
  }
}
