/**
 * Watches the curves of a sweep's trials, enters what early stopping decides at their rungs, and
 * stops those that it ends.
 */
import { MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { isEnded, PRUNED, type RunState } from "../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../registry/registry.ts";
import type { SweepReport, SweepRow } from "../registry/sweeps/sweep_rows.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import { atRung } from "./curve.ts";
import { isUnstopped, originOf, pointAt, trialCount } from "./points.ts";
import { successorOf, withSuccessor } from "./population.ts";
import { MOST_TRIALS, specText, type SweepSpec } from "./spec.ts";
import { decide, decideHeld, type Decision, type Report, rungsOf } from "./stopping.ts";
import { textOf } from "./trial_config.ts";

/** A held trial gives way if all others of its sweep have waited this long to start. */
const GIVES_WAY_MS = 10_000;

interface JudgeHost {
  registry: Registry;
  records: TelemetryReader;
  log: Logger;
  cancel(runId: string, reason: string): void;
  /** Whether the run has processes that can be paused. */
  canPause(runId: string): boolean;
  /** Passes on what the run's row says. */
  pause(runId: string): void;
  resume(runId: string): void;
  /** The newest checkpoint that the run has reported and that is still there. */
  checkpointOf(runId: string): string | undefined;
  /** The sweep's spec has changed. */
  specChanged(sweepId: string): void;
}

export interface Live {
  trial: number;
  runId: string;
  state: RunState;
}

interface Watch {
  /** By rung, one for each trial: only these are compared, and there may be 100 000 trials. */
  reports: Map<number, SweepReport[]>;
  /** By trial: how many rungs are entered. */
  rungs: Map<number, number>;
  /** Trials that may have further rungs, by their runs. */
  open: Map<number, string>;
  /** They are never judged again: one that goes on was let go on by hand. */
  stopped: Set<number>;
  /** Trials that wait at a rung, by their reports. */
  held: Map<number, SweepReport>;
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

  /** How many live trials wait at a rung: they take no place of the sweep's. */
  held(sweepId: string): number {
    return this.#watched.get(sweepId)?.held.size ?? 0;
  }

  /**
   * Enters what is new, one trial after the other in the order of their numbers.
   * @returns whether a live trial has a rung before it
   */
  judge(row: SweepRow, given: SweepSpec, live: readonly Live[]): boolean {
    const { registry, records } = this.#host;
    let spec = given;
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
    for (const trial of watch.held.keys()) if (!alive.has(trial)) watch.held.delete(trial);
    for (const [trial, runId] of [...watch.open].sort(([a], [b]) => a - b)) {
      if (watch.held.has(trial)) continue;
      if (isUnstopped(spec, trial)) {
        watch.open.delete(trial);
        continue;
      }
      // One that goes on from another has passed that one's rungs.
      const passed = watch.rungs.get(trial) ?? originOf(spec, trial)?.rung ?? 0;
      const rungs = rungsOf(rule, trial);
      const entered: SweepReport[] = [];
      let extended = spec;
      for (let rung = passed + 1; rung <= rungs.length; rung++) {
        const { startedAt = null, attempt = 1 } = registry.get(runId) ?? {};
        const at = atRung(records, runId, name, rule, rungs[rung - 1]!, goal, startedAt);
        if (at === undefined) break;
        const report = { trial, rung, ...at };
        const decision = decide(rule, goal, watch.reports.get(rung) ?? [], report, pointOf);
        if (decision.stops && rule.rule === "pbt" && alive.has(trial)) {
          extended = this.#giveWay(row, spec, watch, report, decision);
        }
        const { stops, reason } = decision;
        const holds = stops && rule.hold !== undefined && Number.isFinite(report.value) &&
          alive.has(trial) &&
          this.#host.canPause(runId);
        entered.push({ ...report, stops: stops && !holds, holds, reason, attempt, at: Date.now() });
        if (stops) break;
      }
      if (entered.length > 0) {
        this.#enter(
          row,
          watch,
          entered,
          runId,
          alive.has(trial),
          extended === spec ? undefined : extended,
        );
      }
      spec = extended;
      const isOver = watch.stopped.has(trial) || watch.rungs.get(trial) === rungs.length;
      if (isOver || !alive.has(trial)) watch.open.delete(trial);
    }
    if (rule.hold !== undefined) {
      this.#judgeHeld(row, watch, alive, (held) => [
        ...decideHeld(rule, goal, (rung) => watch.reports.get(rung) ?? [], held, pointOf),
        ...this.#givesWay(live, held),
      ]);
    }
    return [...watch.open.keys()].some((trial) => alive.has(trial));
  }

  /**
   * @returns the sweep with the trial that takes the place; the decision gets its reason, or lets
   * the trial go on
   */
  #giveWay(
    row: SweepRow,
    spec: SweepSpec,
    watch: Watch,
    report: Report,
    decision: Decision,
  ): SweepSpec {
    const trial = trialCount(spec);
    const earlier = (watch.reports.get(report.rung) ?? []).filter((one) =>
      one.trial !== report.trial
    );
    const successor = trial < MOST_TRIALS
      ? successorOf(spec, spec.metric!.goal, earlier, report, trial)
      : undefined;
    if (successor === undefined) return spec;
    const [from] = this.#host.registry.sweeps.trials(row.sweepId, successor.origin.trial, 1);
    if (
      from?.runId == null || from.state === null ||
      this.#host.checkpointOf(from.runId) === undefined
    ) {
      decision.stops = false;
      decision.reason +=
        `, but trial ${successor.origin.trial}, which is better, has no checkpoint to go on from`;
      return spec;
    }
    const changes = Object.entries(successor.values).map(([name, value]) =>
      `${name}=${textOf(value)}`
    ).join(" ");
    decision.reason +=
      `; trial ${trial} goes on from trial ${successor.origin.trial} with ${changes}`;
    return withSuccessor(spec, successor);
  }

  /**
   * An optimizer ends a trial. Nothing happens if it has ended, is stopped already or let go on by
   * hand.
   * @throws MosaicError `failed_precondition` if the trial has not been judged at this rung
   */
  prune({ sweepId, name }: SweepRow, live: readonly Live[], trial: number, rung: number): void {
    const watch = this.#watched.get(sweepId) ?? this.#begin(sweepId);
    const report = watch.reports.get(rung)?.find((one) => one.trial === trial);
    if (report === undefined) {
      throw new MosaicError(
        "failed_precondition",
        `trial ${trial} of sweep ${name} has no value at rung ${rung} yet`,
      );
    }
    const runId = live.find((one) => one.trial === trial)?.runId;
    if (runId === undefined || watch.stopped.has(trial)) return;
    const reason = `${report.reason}, and the optimizer stops it`;
    this.#enter(
      { sweepId, name },
      watch,
      [{ ...report, stops: true, reason, at: Date.now() }],
      runId,
      true,
    );
    watch.open.delete(trial);
  }

  /** No further trial comes that could make one that waits go on. */
  stopHeld({ sweepId, name }: SweepRow, live: readonly Live[]): void {
    const watch = this.#watched.get(sweepId);
    if (watch === undefined) return;
    const alive = new Map(live.map(({ trial, runId }) => [trial, runId]));
    this.#judgeHeld(
      { sweepId, name },
      watch,
      alive,
      (held) =>
        held.map(({ trial, reason }) => ({
          trial,
          stops: true,
          reason: `${reason}, and no further trial comes`,
        })),
    );
  }

  /** @param decideAbout says what becomes of some of those that wait */
  #judgeHeld(
    row: Pick<SweepRow, "sweepId" | "name">,
    watch: Watch,
    alive: ReadonlyMap<number, string>,
    decideAbout: (held: readonly SweepReport[]) => readonly (Decision & { trial: number })[],
  ): void {
    const { registry } = this.#host;
    const enter = (report: SweepReport, stops: boolean, reason: string) =>
      this.#enter(
        row,
        watch,
        [{ ...report, stops, holds: false, reason, at: Date.now() }],
        alive.get(report.trial)!,
        true,
      );
    for (const [trial, report] of watch.held) {
      const run = registry.get(alive.get(trial)!);
      if (run === undefined || run.pauseRequested) continue;
      const why = run.attempt === report.attempt ? "was resumed by hand" : "has another attempt";
      enter(report, false, `rung ${report.rung}: it ${why}`);
    }
    const held = [...watch.held.values()].sort((a, b) => a.trial - b.trial);
    for (const { trial, stops, reason } of decideAbout(held)) {
      const report = watch.held.get(trial);
      if (report !== undefined) enter(report, stops, reason);
    }
  }

  /**
   * One of those that wait, if the trials that could decide about it wait for its memory, GPUs or
   * place.
   */
  #givesWay(live: readonly Live[], held: readonly SweepReport[]): (Decision & { trial: number })[] {
    const others = live.filter(({ trial }) => !held.some((one) => one.trial === trial));
    const waitsLong = ({ runId, state }: Live) =>
      state === "INIT" &&
      Date.now() - (this.#host.registry.get(runId)?.updatedAt ?? Infinity) >= GIVES_WAY_MS;
    if (held.length === 0 || others.length === 0 || !others.every(waitsLong)) return [];
    const { trial, reason } = held.reduce((least, one) => one.rung <= least.rung ? one : least);
    return [{ trial, stops: true, reason: `${reason}, and other trials wait for its place` }];
  }

  /**
   * Stores reports of one trial before anything is done; what is to be done is in the same
   * transaction.
   */
  #enter(
    row: Pick<SweepRow, "sweepId" | "name">,
    watch: Watch,
    entered: readonly SweepReport[],
    runId: string,
    isAlive: boolean,
    extended?: SweepSpec,
  ): void {
    const { registry, log, cancel, pause, resume } = this.#host;
    const last = entered.at(-1)!;
    const { trial, reason, holds, stops } = last;
    const wasHeld = watch.held.has(trial);
    const acts = isAlive && (holds || wasHeld) && !stops;
    registry.together(() => {
      registry.sweeps.addReports(row, entered, runId);
      if (acts) registry.update(runId, { pauseRequested: holds });
      if (extended !== undefined) {
        registry.sweeps.change(row.sweepId, { specJson: specText(extended) });
      }
    });
    if (extended !== undefined) this.#host.specChanged(row.sweepId);
    for (const report of entered) remember(watch, report);
    if (!isAlive) return;
    if (stops) {
      log.info({ sweep: row.name, trial, run_id: runId, reason }, "trial is stopped early");
      cancel(runId, PRUNED);
    } else if (acts) {
      log.info(
        { sweep: row.name, trial, run_id: runId, reason },
        holds ? "trial waits at a rung" : "trial goes on",
      );
      (holds ? pause : resume)(runId);
    }
  }

  /** What earlier daemons have entered; a decision whose trial still runs is carried out now. */
  #begin(sweepId: string): Watch {
    const { registry, cancel } = this.#host;
    const watch: Watch = {
      ...{
        reports: new Map(),
        rungs: new Map(),
        open: new Map(),
        held: new Map(),
        points: new Map(),
      },
      stopped: new Set(),
    };
    const last = new Map<number, SweepReport>();
    for (const report of registry.sweeps.reports(sweepId)) {
      remember(watch, report);
      last.set(report.trial, report);
    }
    for (
      const { trial, runId, attempt, state } of registry.sweeps.trials(sweepId, 0, MOST_TRIALS)
    ) {
      if (state === null) continue;
      const report = last.get(trial);
      if (report?.stops !== true) watch.open.set(trial, runId!);
      // Somebody may have let it go on by hand since.
      else if (!isEnded(state) && report.attempt === attempt) cancel(runId!, PRUNED);
    }
    this.#watched.set(sweepId, watch);
    return watch;
  }
}

function remember({ reports, rungs, held, stopped }: Watch, report: SweepReport): void {
  const { trial, rung, stops, holds } = report;
  if (stops) stopped.add(trial);
  if (holds) held.set(trial, report);
  else held.delete(trial);
  // What became of one that waited is no further value.
  if ((rungs.get(trial) ?? 0) >= rung) return;
  rungs.set(trial, rung);
  const known = reports.get(rung);
  if (known === undefined) reports.set(rung, [report]);
  else known.push(report);
}
