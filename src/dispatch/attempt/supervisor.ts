/**
 * All attempts that have, or may have, processes. Calls go one way: adapters and core → supervisor
 * → attempt. An attempt returns effects; performer.ts performs them.
 */
import { ChildRuns } from "./records/child_runs.ts";
import type { ProxyHello, ProxyLink, ProxySession } from "./state/connected_proxy.ts";
import { planOf, type RunPlan } from "../../config/plan.ts";
import { MosaicError } from "../../base/errors.ts";
import { RunFiles } from "../../base/layout.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { Arrivals } from "./records/arrivals.ts";
import { Attempt } from "./attempt.ts";
import { stepsBefore, usedMs } from "./state/attempt_history.ts";
import { Ends, type EndsOptions } from "./ends.ts";
import { EventEntries } from "./records/event_entries.ts";
import type { Host } from "./state/host.ts";
import { Intake } from "./records/intake.ts";
import { PROGRESS_KIND } from "../../readers/text/run_progress.ts";
import { eventsFromNewest } from "./records/worker_events.ts";
import type { RunLimits } from "./state/limits.ts";
import { BUSY_TICK_MS, Performer, type Supervised } from "./performer.ts";
import { Alerts, type Recorded } from "./state/alerts.ts";
import type { NamedLine } from "../../proxy/delivery/named_files.ts";
import type { Registry } from "../../registry/registry.ts";
import type { AlertRule } from "../../config/alerts.ts";
import { Progress } from "./state/progress.ts";
import { ProxySessions } from "./proxy_sessions.ts";
import { Ticker } from "./ticker.ts";

/** Interval of ticks while all runs have a connected proxy. */
const CALM_TICK_MS = 1000;
/**
 * If a tick is later than this, the daemon was not running: the host was suspended, or the process
 * was stopped.
 */
const UNHEARD_MS = 5000;
/** Interval of searches for new files in the directories of running runs. */
const FILES_MS = 10_000;
/** How long a proxy of an earlier daemon may take to connect to this one. */
const BOOT_ABSENCE_MS = 5000;

export interface SupervisorOptions extends Omit<EndsOptions, "children"> {
  /** The host that a run's attempts are on. */
  hostOf: (plan: RunPlan) => Host;
  /** Time between SIGTERM and SIGKILL. */
  graceSeconds: number;
  /** Rules for every run, in addition to its own. */
  alerts?: readonly AlertRule[];
  /** For runs whose config sets none. */
  heartbeatTimeoutSeconds: number;
  /** Bound on the bytes that one attempt uploads. */
  maxUploadBytes: number;
  /** Proxies that may be in replacement at one time. */
  maxStarting: number;
  /** A record of the worker names a file. */
  onFileNamed: (row: RunRow, event: { kind: string; dataJson: string }) => void;
  /** It is time to search a running run's directory. */
  onFilesDue: (row: RunRow) => void;
  /** A run has ended, waits again, or has registered. */
  onChanged: (row: RunRow) => void;
  /** Milliseconds of a monotonic clock. */
  clock?: () => number;
}

export class Supervisor {
  /** Runs within the runs. */
  readonly children: ChildRuns;
  readonly #options: SupervisorOptions;
  readonly #clock: () => number;
  readonly #runs = new Map<string, Supervised>();
  readonly #ticker = new Ticker(() => this.tick());
  readonly #ends: Ends;
  readonly #performer: Performer;
  readonly #sessions: ProxySessions;
  #closed = false;
  #filesAt: number;
  #tickedAt: number;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.#filesAt = this.#clock();
    this.#tickedAt = this.#filesAt;
    this.children = new ChildRuns(options);
    const { children } = this;
    this.#ends = new Ends({ ...options, children });
    const common = { ...options, children, runs: this.#runs, clock: this.#clock };
    this.#performer = new Performer({
      ...common,
      ends: this.#ends,
      ticker: this.#ticker,
      graceMs: options.graceSeconds * 1000,
    });
    this.#sessions = new ProxySessions({ ...common, performer: this.#performer });
  }

  get(runId: string): Attempt | undefined {
    return this.#runs.get(runId)?.attempt;
  }
  /** Runs with processes. */
  get size(): number {
    return this.#runs.size;
  }
  /** Runs that count towards `--max-runs`. */
  get sizeHere(): number {
    let count = 0;
    for (const { attempt } of this.#runs.values()) if (!attempt.host.elsewhere) count++;
    return count;
  }
  /** The runs that count. */
  idsHere(): string[] {
    return [...this.#runs].filter(([, { attempt }]) => !attempt.host.elsewhere).map(([runId]) =>
      runId
    );
  }
  /** Runs whose proxy was started here and has not registered yet. */
  get registering(): number {
    let count = 0;
    for (const { attempt } of this.#runs.values()) if (attempt.registering) count++;
    return count;
  }

  // -------------------------------------------------------------------------------------------
  // beginning and closing

  /** Supervises an attempt whose proxy was just started. */
  started(row: RunRow, plan: RunPlan, process: ProcessRef | undefined, stepsBefore: number): void {
    const { attempt } = this.#add(row, plan, { usedMs: 0, stepsBefore, absenceMs: Infinity });
    attempt.host.proxyStarted(process, this.#clock());
  }

  /**
   * Recovers an attempt that an earlier daemon has left; does nothing if it is already supervised.
   */
  adopt(row: RunRow): void {
    if (this.#runs.has(row.runId)) return;
    const { registry, graceSeconds } = this.#options;
    const supervised = this.#add(row, planOf(row.configJson), {
      usedMs: usedMs(registry, row),
      stepsBefore: stepsBefore(registry, row),
      absenceMs: BOOT_ABSENCE_MS,
    });
    try {
      supervised.intake.entries.enterMissed();
      const { value: told } = eventsFromNewest(
        this.#options.telemetry,
        row.runId,
        [PROGRESS_KIND],
        row.attempt,
      ).next();
      if (told !== undefined) supervised.attempt.progress.tells([told]);
      if (row.cancelRequestedAt !== null || row.faultRequested !== null) {
        this.#performer.perform(
          supervised,
          supervised.attempt.stop(graceSeconds * 1000, this.#clock()),
        );
      }
    } catch (error) {
      // Recover all or nothing: it is retried, or quarantined.
      this.#runs.delete(row.runId);
      throw error;
    }
  }

  /** Begins to supervise, once proxies can connect. */
  watch(): void {
    this.#tickedAt = this.#clock();
    this.#ticker.start();
    this.#ticker.within(BUSY_TICK_MS);
  }

  /** Ends supervision; the runs live on. */
  close(): void {
    this.#closed = true;
    this.#ticker.stop();
    this.children.close();
    for (const { attempt } of this.#runs.values()) {
      const { link } = attempt;
      attempt.disconnected();
      link?.close("the daemon stops");
    }
  }

  #add(
    row: RunRow,
    plan: RunPlan,
    known: { usedMs: number; stepsBefore: number; absenceMs: number },
  ): Supervised {
    const { layout, registry, telemetry, hostOf, graceSeconds, onFileNamed } = this.#options;
    const { runId } = row;
    const files = new RunFiles(layout.runDir(row.baseDir, runId), row.workerId);
    const now = this.#clock();
    const host = hostOf(plan);
    const attemptHost = host.attempt(row, { plan, files, now, absenceMs: known.absenceMs });
    const arrivals = attemptHost.uploads
      ? new Arrivals(row, { ...this.#options, files })
      : undefined;
    const attempt = new Attempt(row, {
      plan,
      files,
      host: attemptHost,
      arrivals,
      progress: new Progress({
        limits: this.#limits(plan, host),
        state: row.state,
        steps: telemetry.summary(runId).steps - known.stepsBefore,
        now,
        usedMs: known.usedMs,
      }),
      graceMs: graceSeconds * 1000,
    });
    const namesFile = (event: { kind: string; dataJson: string }) =>
      arrivals === undefined ? onFileNamed(registry.require(runId), event) : arrivals.named(event);
    const supervised = {
      attempt,
      intake: this.#intakeOf(row, plan, files, namesFile),
      alerts: new Alerts(
        ...alertsOf(registry, row, [...plan.alerts, ...this.#options.alerts ?? []]),
      ),
    };
    // Without runs there are no ticks.
    if (this.#runs.size === 0) this.#tickedAt = now;
    this.#runs.set(runId, supervised);
    this.#ticker.within(CALM_TICK_MS);
    return supervised;
  }

  #intakeOf(
    row: RunRow,
    plan: RunPlan,
    files: RunFiles,
    namesFile: (event: { kind: string; dataJson: string }) => void,
  ): Intake {
    const { registry, telemetry, log } = this.#options;
    const entries = new EventEntries(row.runId, row.attempt, {
      registry,
      telemetry,
      log,
      namesFile,
    });
    return new Intake(row, {
      telemetry,
      log,
      entries,
      directories: [files.directory, plan.worker.cwd],
    });
  }

  /** Stores what a file of an ended run has, which somebody has named after the end. */
  async storeNamed(
    row: RunRow,
    plan: RunPlan,
    files: RunFiles,
    { cursor: { name, label, state, serial }, episodes, events }: NonNullable<NamedLine["batch"]>,
  ): Promise<void> {
    const { children } = this;
    const intake = this.#intakeOf(
      row,
      plan,
      files,
      (event) => this.#options.onFileNamed(row, event),
    );
    const within = children.runOf(row.runId, row.attempt, name);
    children.expectTrials(within ?? row.runId, events);
    const { result } = await intake.store({
      source: { name, label, state },
      ...(within === undefined ? {} : { within }),
      ...{ from: serial - 1, to: serial, steps: { n: 0 }, episodes, events },
      ...{ otherLines: 0, malformedLines: 0, violations: {} },
    });
    if (result.type === "gap") {
      throw new MosaicError(
        "aborted",
        `${name} has been read by another call: ${result.position} batches are stored`,
      );
    }
    if (result.type === "stored") intake.enterEvents(result);
    children.makeTrials(within ?? row.runId, events);
    children.end(row);
  }

  #limits(plan: RunPlan, host: Host): RunLimits {
    const { maxDurationSeconds, maxSteps, stallTimeoutSeconds } = plan.schedule;
    const ms = (seconds: number | null) => seconds === null ? null : seconds * 1000;
    return {
      handshakeMs: ms(plan.handshakeTimeoutSeconds) ?? host.handshakeMs,
      heartbeatMs: (plan.heartbeatTimeoutSeconds ?? this.#options.heartbeatTimeoutSeconds) * 1000,
      stallMs: ms(stallTimeoutSeconds),
      maxDurationMs: ms(maxDurationSeconds),
      maxSteps,
    };
  }

  // -------------------------------------------------------------------------------------------
  // proxies and workers

  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    if (this.#closed) throw new MosaicError("unavailable", "the daemon is stopping");
    return this.#sessions.open(hello, link);
  }

  /** The worker, or its proxy for it, has registered. */
  registered(runId: string): void {
    const { attempt } = this.#supervised(runId);
    this.#performer.apply(attempt, { type: "registered" });
    this.#performer.alive(attempt);
  }

  /** The worker has sent a heartbeat. */
  heartbeat(runId: string): void {
    const attempt = this.get(runId);
    if (attempt !== undefined) this.#performer.alive(attempt);
  }

  /** Telemetry that did not come through the journal was stored. */
  published(runId: string, recorded: Recorded): void {
    const supervised = this.#supervised(runId);
    const { attempt } = supervised;
    attempt.progress.published(recorded.steps.n, this.#clock());
    supervised.alerts.recorded(recorded);
    this.#performer.active(attempt);
    this.#performer.alive(attempt);
    this.#performer.alert(supervised);
  }

  /** What the run's processes and GPUs used just now. */
  sampled(
    runId: string,
    attempt: number,
    points: readonly (readonly [name: string, value: number])[],
  ): void {
    const supervised = this.#runs.get(runId);
    if (supervised?.attempt.attempt !== attempt || supervised.attempt.state.phase.t !== "running") {
      return;
    }
    if (supervised.attempt.progress.state === "PAUSED") supervised.alerts.held();
    else supervised.alerts.sampled(points, this.#clock());
    this.#performer.guarded(supervised.attempt, () => this.#performer.alert(supervised));
  }

  // -------------------------------------------------------------------------------------------------------
  // control

  /**
   * Stops the worker's process group. The run's end depends on what was requested in the registry.
   */
  stop(runId: string, graceMs: number): void {
    const supervised = this.#supervised(runId);
    this.#performer.perform(supervised, supervised.attempt.stop(graceMs, this.#clock()));
  }

  /** People or the daemon fail the run: recorded first, then stopped. */
  fault(runId: string, reason: string): void {
    this.#performer.fault(this.#supervised(runId), reason);
  }

  /** Asks the worker for a checkpoint. `unconnected`: its proxy will connect, or be replaced */
  askCheckpoint(runId: string): "asked" | "reads_no_messages" | "unconnected" {
    const attempt = this.get(runId);
    if (attempt?.plan.worker.supportsPause !== true) return "reads_no_messages";
    if (attempt.link === undefined) return "unconnected";
    attempt.link.saveCheckpoint();
    return "asked";
  }

  /** Sends the desired control to the proxy, if one is connected. */
  sendControl(runId: string): void {
    const attempt = this.get(runId);
    if (attempt !== undefined) this.#performer.sendControl(attempt);
  }

  /** The limit has changed: the rate measured under the earlier one no longer counts. */
  throttled(runId: string): void {
    this.get(runId)?.progress.rate.restart(this.#clock());
    this.sendControl(runId);
  }

  // ----------------------------------------------------------------------------------------------------------
  // ends

  /** Begins another attempt of a failed run, if one is due and no daemon has begun it. */
  restartIfDue(row: RunRow): void {
    const waiting = this.#ends.restart(row);
    if (waiting !== undefined) this.#options.onChanged(waiting);
  }

  /** A failed run is about to get another attempt. */
  isRepeated(row: RunRow): boolean {
    return this.#ends.isRepeated(row);
  }

  /** The checkpoint that a next attempt would resume from. */
  checkpointOf(row: RunRow): string | undefined {
    return this.#ends.checkpointOf(row, planOf(row.configJson));
  }

  // ---------------------------------------------------------------------------------------------------------
  // ticks

  /** Supervises each run once; called by a timer while there are runs. */
  tick(): void {
    const { maxStarting, onFilesDue } = this.#options;
    const now = this.#clock();
    this.#afterSilence(now);
    const filesDue = now - this.#filesAt >= FILES_MS;
    if (filesDue) this.#filesAt = now;
    let busy = false;
    let replacing = 0;
    for (const { attempt } of this.#runs.values()) if (attempt.host.replacing) replacing++;
    for (const supervised of [...this.#runs.values()]) {
      const { attempt } = supervised;
      this.#performer.guarded(attempt, () => {
        const before = attempt.host.replacing;
        this.#tickOne(supervised, now, replacing < maxStarting);
        if (attempt.host.replacing && !before) replacing++;
        if (filesDue && attempt.session !== undefined) onFilesDue(this.#performer.row(attempt));
      });
      busy ||= attempt.busy;
    }
    if (this.#runs.size > 0) this.#ticker.within(busy ? BUSY_TICK_MS : CALM_TICK_MS);
  }

  /**
   * While this process did not run, proxies waited for it; their messages arrive only after this
   * tick.
   */
  #afterSilence(now: number): void {
    const unheard = now - this.#tickedAt;
    this.#tickedAt = now;
    if (unheard <= CALM_TICK_MS + UNHEARD_MS) return;
    this.#options.log.warn(
      { seconds: Math.round(unheard / 1000) },
      "the daemon did not run for a while (the host slept, or the process was stopped); that time does not count as silence of runs",
    );
    for (const { attempt } of this.#runs.values()) attempt.progress.clock.unheard(unheard, now);
  }

  #tickOne(supervised: Supervised, now: number, mayReplace: boolean): void {
    const { attempt, intake, alerts } = supervised;
    intake.entries.enterWaiting();
    alerts.silent(attempt.progress.clock.silentMs(now));
    if (attempt.state.phase.t === "running") this.#performer.alert(supervised);
    const effects = attempt.tick(now);
    try {
      this.#performer.perform(supervised, effects, mayReplace);
    } catch (error) {
      // The same shortage that prevents the entry may have silenced the worker.
      if (effects.some((effect) => effect.do === "fault")) attempt.progress.clock.output(now);
      throw error;
    }
    const hold = attempt.holdChange(now);
    if (hold === undefined) return;
    this.#options.log.info({ run_id: attempt.runId, ...hold }, "backpressure");
    this.#performer.sendControl(attempt);
  }

  #supervised(runId: string): Supervised {
    const supervised = this.#runs.get(runId);
    if (supervised !== undefined) return supervised;
    throw new MosaicError(
      "failed_precondition",
      `run ${runId} has no processes that this daemon supervises`,
    );
  }
}

/** The rules, and the names of those that have already alerted in this attempt. */
function alertsOf(
  registry: Registry,
  row: RunRow,
  rules: readonly AlertRule[],
): [readonly AlertRule[], Set<string>] {
  const alerted = new Set<string>();
  if (rules.length > 0) {
    // A rule alerts once per attempt, so there are few.
    for (
      const event of registry.eventsSince(0, { runId: row.runId, kinds: ["alert"], limit: 10_000 })
    ) {
      if (event.attempt === row.attempt) alerted.add(String(JSON.parse(event.dataJson).alert));
    }
  }
  return [rules, alerted];
}
