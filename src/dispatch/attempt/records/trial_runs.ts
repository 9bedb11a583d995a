/**
 * Trials of a study in the program's own process, from what it prints when one ends: each is made a
 * run within the run, filled and ended. The printed records are in the telemetry store and the runs
 * in the registry, and the daemon may die between the two. So before a run's first such record is
 * stored, the registry has a cursor over them; what is behind the cursor is made with the run's
 * next batch, at its end, or at a daemon's start. A trial's run is found by its record's seq, so
 * that none is made twice.
 */
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { isPlainObject } from "../../../base/text/exact_numbers.ts";
import { parsedObject } from "../../../base/text/json_text.ts";
import { withoutSecrets } from "../../../base/text/secrets.ts";
import { yieldToOthers } from "../../../base/time/sleep.ts";
import type { StoredWorkerEvent, WorkerEventRecord } from "../../../gen/records/record_types.ts";
import { TRIAL_KIND } from "../../../readers/text/text_records.ts";
import { isEnded, type LifecycleEvent } from "../../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../../registry/registry.ts";
import { refusesContent } from "../../../telemetry/blocks/failures.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import { eventsAfter } from "./worker_events.ts";

/** Made in one turn, which takes some tens of milliseconds. */
const AT_ONCE = 50;

/** As it was printed; nothing of it is sure. */
interface PrintedData {
  number?: unknown;
  state?: unknown;
  values?: unknown;
  parameters?: unknown;
}

type MadeTrial = PrintedData & { child: string; tsNs: string };

interface TrialRunsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  /**
   * The run within a run that has this key; made if it is new, undefined if the run has too many.
   */
  child: (parent: string, key: string, name: string) => string | undefined;
  /** The bound on runs within a run, for messages. */
  most: number;
}

export class TrialRuns {
  readonly #options: TrialRunsOptions;
  /** Runs whose cursor is open. */
  readonly #expected = new Set<string>();
  /** Runs whose rest is being made. */
  readonly #busy = new Set<string>();
  /** Runs with a failure that was logged. */
  readonly #failed = new Set<string>();
  #closed = false;

  constructor(options: TrialRunsOptions) {
    this.#options = options;
  }

  /** These records of the run are about to be stored. @throws if the registry cannot be written */
  expect(runId: string, events: readonly WorkerEventRecord[]): void {
    if (this.#expected.has(runId) || !events.some(({ kind }) => kind === TRIAL_KIND)) return;
    const { registry, telemetry } = this.#options;
    registry.expectTrials(runId, telemetry.head(runId, "events"));
    this.#expected.add(runId);
  }

  /**
   * Makes what the run has announced: some at once, and the rest in turns with other work. `done`:
   * nothing is left.
   */
  make(runId: string, done: () => void = () => {}): void {
    if (this.#busy.has(runId)) return;
    const made = this.#some(runId);
    if (made === "all") done();
    if (made !== "some") return;
    this.#busy.add(runId);
    this.#rest(runId, done);
  }

  async #rest(runId: string, done: () => void): Promise<void> {
    let made: "some" | "all" | "failed" = "some";
    while (made === "some") {
      await yieldToOthers();
      if (this.#closed) return;
      made = this.#some(runId);
    }
    this.#busy.delete(runId);
    if (made === "all") done();
  }

  /**
   * Makes the rest of an ended run, and of the runs within it. Later batches may be on their way.
   * @returns whether nothing is left
   */
  finish(parentId: string): boolean {
    for (const { runId } of this.#options.registry.openTrials(parentId)) {
      let made = this.#some(runId);
      while (made === "some") made = this.#some(runId);
      if (made === "failed") return false;
      this.#expected.delete(runId);
      this.#failed.delete(runId);
    }
    return true;
  }

  /**
   * A run of an earlier daemon has ended, so that no batch of it is on its way; nothing is left of
   * it.
   */
  settled(runId: string): void {
    const { registry, telemetry } = this.#options;
    if (!this.#expected.has(runId)) {
      registry.trialsMade(runId, telemetry.head(runId, "events"), false);
    }
  }

  /** An earlier try has failed. */
  waits(runId: string): boolean {
    return this.#failed.has(runId);
  }

  close(): void {
    this.#closed = true;
  }

  #some(runId: string): "some" | "all" | "failed" {
    const { registry, telemetry, log } = this.#options;
    try {
      const cursor = registry.openTrials(runId).find((open) => open.runId === runId);
      if (cursor === undefined) return "all";
      const announced: StoredWorkerEvent[] = [];
      for (const event of eventsAfter(telemetry, runId, [TRIAL_KIND], cursor.seq)) {
        if (event !== undefined) announced.push(event);
        if (announced.length >= AT_ONCE) break;
      }
      if (announced.length === 0) return "all";
      this.#makeRuns(runId, announced);
      this.#failed.delete(runId);
      return announced.length < AT_ONCE ? "all" : "some";
    } catch (error) {
      if (!this.#failed.has(runId)) {
        log.warn(
          { run_id: runId, error: messageOf(error) },
          "trials are not runs yet; the next batch tries again",
        );
      }
      this.#failed.add(runId);
      return "failed";
    }
  }

  /** May die between any two of its commits: the next time continues. */
  #makeRuns(runId: string, announced: readonly StoredWorkerEvent[]): void {
    const { registry, child } = this.#options;
    const parent = registry.require(runId).parent ?? runId;
    const trials = registry.together(() =>
      announced.flatMap(({ seq, dataJson, tsNs }) => {
        const trial = trialIn(dataJson);
        if (!Number.isSafeInteger(trial.number)) return [];
        return [{
          ...trial,
          tsNs,
          child: child(parent, `trial ${runId} ${seq}`, `trial-${trial.number}`),
        }];
      })
    );
    const made = trials.filter((trial): trial is MadeTrial => trial.child !== undefined);
    this.#fill(made);
    if (made.length < trials.length) {
      this.#tooMany(runId, announced[0]!.attempt, trials.length - made.length);
    }
    registry.together(() => {
      for (const { child, state } of made) {
        if (!isEnded(registry.require(child).state)) registry.apply(child, trialEnd(state));
      }
      registry.trialsMade(runId, announced.at(-1)!.seq);
    });
  }

  /** As the first batch of a journal, which is stored once. */
  #fill(made: readonly MadeTrial[]): void {
    const { telemetry, log } = this.#options;
    const none = {
      steps: { n: 0 },
      episodes: [],
      otherLines: 0,
      malformedLines: 0,
      violations: {},
    };
    const outcomes = telemetry.ingestAll(made.map((trial) => ({
      runId: trial.child,
      attempt: 1,
      batch: { ...none, from: 0, to: 1, events: eventsOf(trial) },
    })));
    outcomes.forEach((outcome, i) => {
      if (!("error" in outcome)) return;
      if (!refusesContent(outcome.error)) throw outcome.error;
      // It would be refused each time; its record stays with the parent.
      log.error(
        { run_id: made[i]!.child, error: messageOf(outcome.error) },
        "a trial's numbers are refused by the store",
      );
    });
  }

  /**
   * Stored once with the run, and then counted. A daemon that dies before the cursor moves counts
   * these again.
   */
  #tooMany(runId: string, attempt: number, count: number): void {
    const what =
      `trials beyond ${this.#options.most} runs within a run: their records stay with the run itself`;
    const dataJson = JSON.stringify({ source: "optuna", what, count });
    this.#options.telemetry.append(runId, attempt, [], [], [{
      kind: "not_read",
      dataJson,
      tsNs: "",
    }]);
  }
}

/** The event's data; that of an imported log is one level deeper. */
function trialIn(dataJson: string): PrintedData {
  const data = parsedObject(dataJson) ?? {};
  return isPlainObject(data["payload"]) ? data["payload"] : data;
}

function eventsOf({ values, parameters, tsNs }: MadeTrial): WorkerEventRecord[] {
  const numbers = (Array.isArray(values) ? values : []).filter((value) =>
    typeof value === "number"
  );
  const points = numbers.map((value, i) => [numbers.length === 1 ? "value" : `value_${i}`, value]);
  const given = withoutSecrets("", parameters ?? {});
  return [
    { kind: "parameters", dataJson: JSON.stringify({ source: "optuna", values: given }), tsNs },
    ...(points.length === 0
      ? []
      : [{ kind: "metrics", dataJson: JSON.stringify(Object.fromEntries(points)), tsNs }]),
  ];
}

function trialEnd(state: unknown): LifecycleEvent {
  if (state === "pruned") return { type: "cancelled", reason: "pruned" };
  return state === "failed" ? { type: "failed", reason: "trial_failed" } : { type: "exited_ok" };
}
