/**
 * One attempt of one run that has, or may have, processes: its state (attempt_state.ts), its
 * progress, its host. It only queries its host; everything else to do is returned to the supervisor
 * as effects. Recovery needs nothing from here: what must outlive the daemon is in the registry and
 * in the run's directory.
 */
import type { RunPlan } from "../../config/plan.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { DesiredControl, ProxyLink, ProxySession } from "./state/connected_proxy.ts";
import type { Arrivals } from "./records/arrivals.ts";
import { type AttemptEvent, type AttemptState, type Effect, next } from "./state/attempt_state.ts";
import { Backpressure, type Hold } from "./state/backpressure.ts";
import type { AbsenceStep, AttemptHost, Rest, WorkerGroup } from "./state/host.ts";
import type { LimitReason } from "./state/limits.ts";
import type { Progress } from "./state/progress.ts";

export interface AttemptParts {
  plan: RunPlan;
  files: RunFiles;
  host: AttemptHost;
  progress: Progress;
  arrivals: Arrivals | undefined;
  /** Default grace period, milliseconds. */
  graceMs: number;
}

export class Attempt {
  readonly runId: string;
  readonly attempt: number;
  readonly plan: RunPlan;
  readonly files: RunFiles;
  readonly host: AttemptHost;
  readonly progress: Progress;
  /** undefined: its files are on the daemon's disk. */
  readonly arrivals: Arrivals | undefined;
  readonly backpressure: Backpressure;
  /**
   * The alert that paused the run; undefined: a person did. Not known after a restart of the
   * daemon.
   */
  pausedBy: string | undefined;
  /**
   * This daemon has committed the fault; of an earlier one it is not known whether it has signalled
   * the worker itself.
   */
  faultedHere = false;
  /** ControlStreams on which the worker itself follows its run. */
  listeners = 0;
  readonly #graceMs: number;
  #state: AttemptState<ProxySession> = { phase: { t: "running" }, connection: { t: "absent" } };

  constructor(row: RunRow, { plan, files, host, progress, arrivals, graceMs }: AttemptParts) {
    this.runId = row.runId;
    this.attempt = row.attempt;
    this.plan = plan;
    this.files = files;
    this.host = host;
    this.progress = progress;
    this.arrivals = arrivals;
    this.backpressure = new Backpressure(plan.backpressure);
    this.#graceMs = graceMs;
  }

  get state(): AttemptState<ProxySession> {
    return this.#state;
  }
  /** The session of the connected proxy. */
  get session(): ProxySession | undefined {
    const { connection } = this.#state;
    return connection.t === "connected" ? connection.session : undefined;
  }
  get link(): ProxyLink | undefined {
    const { connection } = this.#state;
    return connection.t === "connected" ? connection.link : undefined;
  }
  /** Its proxy was started here and has not registered yet. */
  get registering(): boolean {
    return this.progress.state === "HANDSHAKE" && this.host.startsProxy;
  }
  /**
   * Its state changes within a fraction of a second, so it is ticked more often than a running
   * attempt.
   */
  get busy(): boolean {
    return this.#state.phase.t !== "running" || this.session === undefined;
  }

  /** The worker can pause, and follows its run on a ControlStream of its own. */
  workerHears(row: RunRow): boolean {
    return row.supportsPause && this.listeners > 0;
  }

  /** The stricter of what people and the backpressure policy ask for. */
  desired(row: RunRow): DesiredControl {
    const { paused, maxRateHz } = this.backpressure.hold;
    const rates = [row.maxRateHz, maxRateHz].filter((rate) => rate > 0);
    return {
      paused: row.pauseRequested || paused,
      maxRateHz: rates.length === 0 ? 0 : Math.min(...rates),
      workerHears: this.workerHears(row),
    };
  }

  /** The backpressure policy's hold, when it has changed. */
  holdChange(now: number): Hold | undefined {
    if (this.#state.phase.t !== "running") return undefined;
    const { progress, session } = this;
    const backlog = session === undefined ? 0 : progress.journalSize - session.journalPosition;
    return this.backpressure.check(now, progress.rate.perSecond(now), backlog);
  }

  connected(session: ProxySession, link: ProxyLink): readonly Effect[] {
    return this.#on({ t: "connected", session, link });
  }

  disconnected(): readonly Effect[] {
    return this.#on({ t: "disconnected" });
  }

  tick(now: number): readonly Effect[] {
    const limit = this.#state.phase.t === "running" ? this.#limit(now) : undefined;
    return this.#on({
      t: "tick",
      now,
      group: this.#group(),
      limit,
      graceMs: this.#graceMs,
      silentMs: this.progress.clock.lifelessMs(now),
    });
  }

  #limit(now: number): LimitReason | undefined {
    const { host, progress } = this;
    progress.clock.heldIs(host.held === true, now);
    const limit = progress.exceeded(now);
    const isSilence = limit === "heartbeat_timeout" || limit === "stall_timeout";
    if (!isSilence) host.heard?.();
    return isSilence && host.confirmsSilence?.() === false ? undefined : limit;
  }

  /** @param silent neither the worker nor its proxy has sent anything */
  stop(graceMs: number, now: number, silent = false): readonly Effect[] {
    return this.#on({ t: "stop", now, group: this.#groupOrUnknown(), graceMs, silent });
  }

  /** The stop begins even if the group cannot be looked up now; each tick tries again. */
  #groupOrUnknown(): WorkerGroup {
    try {
      return this.host.group(true);
    } catch (error) {
      if (!isShortage(error)) throw error;
      return "unknown";
    }
  }

  exit(report: ExitReport, now: number): readonly Effect[] {
    return this.#on({ t: "exit", now, group: this.#exitGroup(), report, graceMs: this.#graceMs });
  }

  absence(step: AbsenceStep, now: number): readonly Effect[] {
    const group = step.do === "exited" ? this.#exitGroup() : "unknown";
    return this.#on({ t: "absence", now, group, step, graceMs: this.#graceMs });
  }

  rest(known: Rest): readonly Effect[] {
    return this.#on({ t: "rest", ...known });
  }

  #on(event: AttemptEvent<ProxySession>): readonly Effect[] {
    const { state, effects } = next(this.#state, event);
    this.#state = state;
    return effects;
  }

  /** Called only when the answer matters: it reads the process table. */
  #group(): WorkerGroup {
    const { phase } = this.#state;
    return phase.t === "running" || phase.t === "ended" ? "unknown" : this.#exitGroup();
  }

  #exitGroup(): WorkerGroup {
    const { phase } = this.#state;
    return this.host.group("stop" in phase && phase.stop !== undefined);
  }
}
