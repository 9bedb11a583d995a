/** A connected proxy as the adapters see it: each word of it is checked for being the current proxy's. */
import type { ExitReport } from "../../registry/failure/explain.ts";
import type { ControlWish, ProxySession } from "../core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { IngestBatch } from "../../telemetry/batch.ts";
import type { SupervisedRun } from "./supervised_run.ts";
import type { Supervision } from "./supervisor.ts";

export class Session implements ProxySession {
  readonly journalPosition: number;
  readonly control: ControlWish;
  readonly #run: SupervisedRun;
  readonly #supervision: Supervision;
  #position: number;

  constructor(run: SupervisedRun, supervision: Supervision) {
    this.#run = run;
    this.#supervision = supervision;
    // Of an earlier connection: where the journal goes on is after it.
    supervision.telemetry.commitWaiting();
    const { attempt, journalPosition } = supervision.telemetry.summary(run.runId);
    this.journalPosition = this.#position = attempt === run.attempt ? journalPosition : 0;
    this.control = run.wish();
  }

  /** Up to where the journal is stored. */
  get position(): number {
    return this.#position;
  }

  async batch(
    batch: IngestBatch,
    journalSize: number,
    samples: { malformed: string[]; violations: string[] },
  ): Promise<number> {
    this.#run.requireCurrent(this);
    return this.#position = await this.#run.ingest(batch, journalSize, samples);
  }

  heartbeat(journalSize: number): void {
    this.#run.requireCurrent(this);
    this.#run.alive(journalSize);
  }

  controlApplied(state: { paused: boolean; maxRateHz: number; selfPaused: string }): void {
    this.#run.requireCurrent(this);
    this.#run.alive();
    const byPolicy = this.#run.backpressure.hold.paused ? "backpressure" : "by request";
    const reason = state.selfPaused === "" ? byPolicy : state.selfPaused;
    this.#supervision.controlApplied(this.#run, state.paused || state.selfPaused !== "", reason);
  }

  exit(report: ExitReport): void {
    this.#run.requireCurrent(this);
    if (!report.lost && report.finalPosition > this.#position) {
      throw new MosaicError(
        "aborted",
        `the exit at journal position ${report.finalPosition} came before the journal, stored up to ${this.#position}`,
      );
    }
    this.#run.takeExit(report);
  }

  closed(): void {
    this.#run.sessionClosed(this);
  }
}
