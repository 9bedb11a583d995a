/**
 * Enters a run's lifecycle records (checkpoints, failures) into the event log, each once and in
 * order. The records are in the telemetry store and the events in the registry. The daemon may die,
 * or the registry may be unwritable, between the two: so an event contains the seq of its record,
 * and a later daemon continues after the newest event.
 */
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import type { Registry } from "../../../registry/registry.ts";
import { refusesContent } from "../../../telemetry/blocks/failures.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import {
  ENTERED_KINDS,
  entryData,
  eventsAfter,
  failureText,
  FILE_KINDS,
  isEntered,
  reportedFailure,
} from "./worker_events.ts";

const PAGE = 1000;

export interface EntryContext {
  readonly registry: Registry;
  readonly telemetry: TelemetryLog;
  readonly log: Logger;
  /** A record names a file. */
  namesFile: (event: { kind: string; dataJson: string }) => void;
}

export class EventEntries {
  readonly #runId: string;
  readonly #attempt: number;
  readonly #context: EntryContext;
  #failed: string | undefined;
  /** Records after this seq wait, because the registry could not be written. */
  #waitAfter: number | undefined;
  #warnedSeq = 0;

  constructor(runId: string, attempt: number, context: EntryContext) {
    this.#runId = runId;
    this.#attempt = attempt;
    this.#context = context;
  }

  /** The worker's own report of a failure; undefined if it reported none. */
  failed(): string | undefined {
    return this.#failed ?? reportedFailure(this.#context.telemetry, this.#runId, this.#attempt);
  }

  /** `events` were just stored; `lastSeq` is the seq of the newest. */
  stored(events: readonly { kind: string; dataJson: string }[], lastSeq: number): void {
    let seq = lastSeq - events.length;
    for (const event of events) this.#enter(event.kind, event.dataJson, ++seq);
  }

  /** A file that has no record of its own. */
  namesFile(event: { kind: string; dataJson: string }): void {
    this.#context.namesFile(event);
  }

  /** Enters what an earlier daemon stored but did not enter. */
  enterMissed(): void {
    const { registry } = this.#context;
    let entered = 0;
    for (let seq = 0;;) {
      const page = registry.eventsSince(seq, { runId: this.#runId, limit: PAGE });
      for (const event of page) {
        seq = event.seq;
        const at = isEntered(event.kind) ? JSON.parse(event.dataJson).telemetry_seq : undefined;
        if (typeof at === "number") entered = Math.max(entered, at);
      }
      if (page.length < PAGE) break;
    }
    this.#enterAfter(entered);
  }

  /** Retries what could not be entered. */
  enterWaiting(): void {
    if (this.#waitAfter !== undefined) this.#enterAfter(this.#waitAfter);
  }

  #enterAfter(entered: number): void {
    this.#waitAfter = undefined;
    for (
      const event of eventsAfter(this.#context.telemetry, this.#runId, [
        ...ENTERED_KINDS,
        ...FILE_KINDS,
      ], entered)
    ) {
      if (event !== undefined) this.#enter(event.kind, event.dataJson, event.seq);
      if (this.#waitAfter !== undefined) return;
    }
  }

  #enter(kind: string, dataJson: string, seq: number): void {
    const { registry, log } = this.#context;
    if (kind === "run_failed") this.#failed = failureText(dataJson);
    if (FILE_KINDS.includes(kind)) this.#context.namesFile({ kind, dataJson });
    // Keep order: recovery resumes after the newest stored event.
    if (!isEntered(kind) || this.#waitAfter !== undefined) return;
    try {
      registry.appendEvent(this.#runId, kind, entryData(kind, dataJson, seq));
    } catch (error) {
      if (refusesContent(error)) {
        // It would be refused each time, and those behind it would wait for ever. Its record stays
        // in the telemetry.
        log.error(
          { run_id: this.#runId, kind, seq, error: messageOf(error) },
          "event left out of the event log",
        );
        return;
      }
      this.#waitAfter = seq - 1;
      if (seq === this.#warnedSeq) return;
      this.#warnedSeq = seq;
      log.warn(
        { run_id: this.#runId, kind, error: messageOf(error) },
        "event not written yet; trying again",
      );
    }
  }
}
