/** Watches the curves of a sweep's trials, enters what early stopping decides at their rungs, and stops those that it ends. */
import type { Logger } from "../base/log.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../registry/registry.ts";
import type { SweepReport, SweepRow } from "../registry/sweeps/sweep_rows.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import { atRung } from "./curve.ts";
import { pointAt } from "./points.ts";
import { MOST_TRIALS, type SweepSpec } from "./spec.ts";
import { decide, rungsOf } from "./stopping.ts";

/** Reason of a run that early stopping has ended: no failure. */
export const PRUNED = "pruned";

interface JudgeHost {
  registry: Registry;
  records: TelemetryReader;
  log: Logger;
  cancel(runId: string, reason: string): void;
}

interface Watch {
  /** By rung: only these are compared, and there may be 100 000 trials. */
  reports: Map<number, SweepReport[]>;
  /** By trial: how many rungs are entered. */
  rungs: Map<number, number>;
  /** Trials that may have further rungs, by their runs. */
  open: Map<number, string>;
  /** They are never judged again: one that goes on was let go on by hand. */
  stopped: Set<number>;
  /** By trial, as they were asked for. */
  points: Map<number, string>;
}

export class Judge {
  readonly #host: JudgeHost;
  readonly #watched = new Map<string, Watch>();

  constructor(host: JudgeHost) {
    this.#host = host;
  }

  forget(sweepId: string): void {
    this.#watched.delete(sweepId);
  }

  /**
   * Enters what is new, one trial after the other in the order of their numbers.
   * @returns whether a live trial has a rung before it
   */
  judge(row: SweepRow, spec: SweepSpec, live: readonly { trial: number; runId: string }[]): boolean {
    const { registry, records, log, cancel } = this.#host;
    const rule = spec.stop!;
    const { name, goal } = spec.metric!;
    const watch = this.#watched.get(row.sweepId) ?? this.#begin(row.sweepId);
    for (const { trial, runId } of live) {
      const left = (watch.rungs.get(trial) ?? 0) < rungsOf(rule, trial).length;
      if (left && !watch.stopped.has(trial)) watch.open.set(trial, runId);
    }
    const pointOf = (trial: number): string => {
      const known = watch.points.get(trial) ?? pointAt(spec, trial);
      watch.points.set(trial, known);
      return known;
    };
    const alive = new Map(live.map(({ trial, runId }) => [trial, runId]));
    for (const [trial, runId] of [...watch.open].sort(([a], [b]) => a - b)) {
      const rungs = rungsOf(rule, trial);
      const entered: SweepReport[] = [];
      for (let rung = (watch.rungs.get(trial) ?? 0) + 1; rung <= rungs.length; rung++) {
        const { startedAt = null, attempt = 1 } = registry.get(runId) ?? {};
        const at = atRung(records, runId, name, rule, rungs[rung - 1]!, goal, startedAt);
        if (at === undefined) break;
        const report = { trial, rung, ...at };
        const { stops, reason } = decide(rule, goal, watch.reports.get(rung) ?? [], report, pointOf);
        entered.push({ ...report, stops, reason, attempt, at: Date.now() });
        if (stops) break;
      }
      if (entered.length > 0) {
        registry.sweeps.addReports(row, entered, runId);
        for (const report of entered) remember(watch, report);
        watch.rungs.set(trial, entered.at(-1)!.rung);
      }
      const stopped = entered.at(-1)?.stops === true;
      if (stopped) watch.stopped.add(trial);
      if (stopped || !alive.has(trial) || watch.rungs.get(trial) === rungs.length) watch.open.delete(trial);
      if (stopped && alive.has(trial)) {
        log.info({ sweep: row.name, trial, run_id: runId, reason: entered.at(-1)!.reason }, "trial is stopped early");
        cancel(runId, PRUNED);
      }
    }
    return [...watch.open.keys()].some((trial) => alive.has(trial));
  }

  /** What earlier daemons have entered; a decision whose trial still runs is carried out now. */
  #begin(sweepId: string): Watch {
    const { registry, cancel } = this.#host;
    const reports = registry.sweeps.reports(sweepId);
    const watch: Watch = {
      reports: new Map(),
      rungs: new Map(),
      open: new Map(),
      stopped: new Set(),
      points: new Map(),
    };
    const stopped = new Map<number, SweepReport>();
    for (const report of reports) {
      remember(watch, report);
      watch.rungs.set(report.trial, report.rung);
      if (!report.stops) continue;
      stopped.set(report.trial, report);
      watch.stopped.add(report.trial);
    }
    for (const { trial, runId, attempt, state } of registry.sweeps.trials(sweepId, 0, MOST_TRIALS)) {
      if (state === null) continue;
      const report = stopped.get(trial);
      if (report === undefined) watch.open.set(trial, runId!);
      // Somebody may have let it go on by hand since.
      else if (!isEnded(state) && report.attempt === attempt) cancel(runId!, PRUNED);
    }
    this.#watched.set(sweepId, watch);
    return watch;
  }
}

function remember({ reports }: Watch, report: SweepReport): void {
  const known = reports.get(report.rung);
  if (known === undefined) reports.set(report.rung, [report]);
  else known.push(report);
}
