/**
 * The runs that an engine places. While its job is in the engine's queue, a run is INIT. Its
 * attempt begins when its proxy says hello, or when the engine says that the job runs or has ended.
 * A placement is committed before the engine is asked, and its job is found by its name: if the
 * daemon dies, the next one continues. A placed proxy says hello before it starts its worker, and
 * only the placement's own job is admitted. So a job that an engine makes twice, forgets, or starts
 * too late never has a second worker.
 *
 * A run that an engine places is in one of two places here:
 *
 * | State | Moves to | When |
 * |---|---|---|
 * | waiting (`#waiting`) | `intended` | it is its turn, and no proxy of an earlier attempt lives |
 * | `intended` (`Stage`, in `#live`) | `requested` | its order is made, just before the engine is asked |
 * | `intended` | waiting | a shortage on this host |
 * | `requested` | `released` | the attempt is over |
 * | any of `Stage` | forgotten | its job has ended (`placement_state.ts` decides), or the run ended before it was asked for |
 */
import { planOf, type RunPlan } from "../../../config/plan.ts";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { type Layout, RunFiles } from "../../../base/layout.ts";
import type { Logger } from "../../../base/log.ts";
import { isShortage } from "../../../os/processes/shortage.ts";
import { explain } from "../../../registry/failure/explain.ts";
import { isEnded } from "../../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { Placement, RunRow } from "../../../registry/row_types.ts";
import type { ProxyHello } from "../../attempt/state/connected_proxy.ts";
import type { JobRef, Launched, Launcher, Order, Sighting } from "../engine/launcher.ts";
import { proxyLockHeld } from "../local/attempt_files.ts";
import { type LivePlacement, LivePlacements } from "./live_placements.ts";
import {
  admissionOf,
  applySightings,
  doubtOf,
  FORGOTTEN,
  type Job,
  jobName,
  NODE_SETTLE_MS,
  readJobName,
  settled,
  stepOf,
} from "./placement_state.ts";
import { Rounds } from "./rounds.ts";
import { SilentEngines } from "./silent_engines.ts";

/** Interval of queries: the least while something changes, the most otherwise. */
const QUERY_MS = { least: 1000, most: 15_000 } as const;
/** Jobs submitted at the same time. */
const LAUNCHES = 4;
/**
 * If an engine has not accepted a job, the daemon asks again after 2 s, 4 s, 8 s …, at most this.
 */
const RESUBMIT_MS = { least: 2000, most: 60_000 } as const;
/** Between two requests to stop the same job. */
const STOP_AGAIN_MS = 5000;
/** Accounting may record an end late. */
const ACCOUNT_AGAIN_MS = 60_000;
/** While a proxy of an earlier attempt lives. */
const ALIVE_AGAIN_MS = 1000;
/** After a shortage (free space, descriptors) a run waits this long. */
const SHORTAGE_MS = 5000;

/** What became of asking an engine for a job: its answer, or why it was not asked. */
type Outcome = Launched | { t: "shortage"; why: string } | { t: "failed"; why: string };

/**
 * Whether a run may start now by its own wishes: src/dispatch/queue/turn.ts. `until`: Unix
 * milliseconds.
 */
type Turn = { t: "due" } | { t: "held"; why: string; until: number | null } | { t: "over" };

/** What a placed attempt needs to know of its job. */
export interface JobView {
  job: Job;
  /** A client has cancelled the run. */
  cancelRequested: boolean;
  /** How many answers of the engine have said that the job runs. */
  ran: number;
  /** The job's, for people. */
  name: string;
  on: string;
}

export interface PlacerOptions {
  registry: Registry;
  log: Logger;
  layout: Layout;
  launcherOf: (plan: RunPlan) => Launcher | undefined;
  /**
   * Writes what the job's proxy needs, and returns the command that starts it. @throws a shortage,
   * or an error that fails the run
   */
  order: (row: RunRow, plan: RunPlan, files: RunFiles) => Pick<Order, "argv" | "env" | "node">;
  /** Whether it is the run's turn; enters an end that this implies. */
  turn: (row: RunRow) => Turn;
  /** The run's attempt begins: it is in HANDSHAKE and supervised. */
  begin: (row: RunRow) => void;
  /** The run has ended without having been supervised. */
  onEnded: (row: RunRow) => void;
  /** A test's clock; milliseconds, monotonic. */
  clock?: () => number;
  queryMs?: { least: number; most: number };
  /** Instead of NODE_SETTLE_MS. */
  settleMs?: number | undefined;
}

export class Placer {
  readonly #options: PlacerOptions;
  readonly #clock: () => number;
  readonly #live: LivePlacements;
  readonly #rounds: Rounds;
  /**
   * INIT runs that wait to be placed. `held`: for their turn, without anything to ask the engine.
   */
  readonly #waiting = new Map<string, { notBefore: number; why: string; held?: boolean }>();
  readonly #silent: SilentEngines;

  constructor(options: PlacerOptions) {
    const { registry, log } = options;
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.#live = new LivePlacements(registry, this.#clock);
    this.#silent = new SilentEngines(log);
    this.#rounds = new Rounds({
      work: () => this.#work(),
      onError: (error) =>
        log.error({ error: messageOf(error) }, "placements could not be checked; tried again"),
      pauseMs: options.queryMs ?? QUERY_MS,
      clock: this.#clock,
    });
  }

  // ------------------------------------------------------------------------------------------
  // beginning and closing

  /** Reads the placements of an earlier daemon. Call it before proxies can connect. */
  recover(): void {
    const { registry } = this.#options;
    for (const placement of registry.openPlacements()) {
      const row = registry.get(placement.runId);
      const launcher = row && this.#launcherOf(row);
      if (row === undefined || launcher === undefined) continue;
      const over = row.attempt !== placement.attempt || isEnded(row.state);
      this.#live.add(
        placement,
        launcher,
        over ? { t: "released", at: this.#clock() } : { t: "requested" },
      );
    }
    for (const row of registry.live()) this.changed(row);
  }

  /** Call it when proxies can connect. */
  start(): void {
    this.#rounds.start();
  }

  close(): Promise<void> {
    return this.#rounds.close();
  }

  // -------------------------------------------------------------------------------------------------------
  // queries

  /** Runs that wait for an engine. */
  get waiting(): number {
    const queued = this.#live.all().filter(({ placement: { phase }, stage }) =>
      phase !== "running" && stage.t !== "released"
    );
    return queued.length + this.#waiting.size;
  }

  /** Whether an engine places the run; no engine places a run with a damaged config. */
  places(row: RunRow): boolean {
    return this.#launcherOf(row) !== undefined;
  }

  /** An engine has, or may have, a job of the run's attempt. */
  isPlaced(row: RunRow): boolean {
    return this.#live.of(row) !== undefined;
  }

  /** Why a run that is INIT waits. */
  waitingFor(row: RunRow): string {
    const waiting = this.#waiting.get(row.runId);
    if (waiting !== undefined) return waiting.why;
    const live = this.#live.of(row);
    if (live === undefined) return "";
    const { placement, launcher } = live;
    const silent = this.#silent.why(launcher);
    if (silent !== undefined) return `${launcher.name}, which does not answer: ${silent}`;
    const what = placement.phase === "intended"
      ? `${launcher.name} to take the job`
      : launcher.describe(placement);
    return `${what}${placement.waitingFor === "" ? "" : `: ${placement.waitingFor}`}`;
  }

  view(row: { runId: string; attempt: number }): JobView | undefined {
    const live = this.#live.of(row);
    if (live === undefined) return undefined;
    const cancelRequestedAt = this.#options.registry.get(row.runId)?.cancelRequestedAt ?? null;
    const { job, ran, placement: { name, nodes } } = live;
    const on = nodes.length === 0 ? "the node" : nodes.join(", ");
    return { job, cancelRequested: cancelRequestedAt !== null, ran, name, on };
  }

  // -------------------------------------------------------------------------------------------------------
  // changes

  /** A run's row has changed. @returns false if no engine places the run */
  changed(row: RunRow): boolean {
    if (!this.places(row)) return false;
    const { runId } = row;
    const live = this.#live.of(row);
    const placed = live !== undefined && live.stage.t !== "released";
    if (
      row.state === "INIT" && row.cancelRequestedAt === null && row.damaged.length === 0 && !placed
    ) {
      const left = row.notBefore === null
        ? 0
        : Math.min(row.notBefore - Date.now(), row.notBefore - row.updatedAt);
      const why = row.notBefore === null
        ? ""
        : `its next attempt at ${new Date(row.notBefore).toISOString()}`;
      this.#waiting.set(runId, { notBefore: this.#clock() + left, why });
    } else {
      this.#waiting.delete(runId);
    }
    this.#rounds.soon();
    return true;
  }

  /**
   * A run whose cancellation or failure is entered and whose job was never asked for ends at once.
   */
  cancelRequested(row: RunRow): void {
    const live = this.#live.of(row);
    if (live !== undefined) this.#advance(live);
    this.#rounds.soon();
  }

  /** A run has changed for which others may wait. */
  otherChanged(): void {
    let held = false;
    for (const waiting of this.#waiting.values()) {
      if (!waiting.held) continue;
      waiting.notBefore = -Infinity;
      held = true;
    }
    if (held) this.#rounds.soon();
  }

  /**
   * A proxy says hello: its attempt begins if it has not, and its host is recorded.
   * @throws MosaicError `failed_precondition` for a job that must not serve the attempt
   */
  arrived(hello: ProxyHello): void {
    const { registry } = this.#options;
    const live = this.#live.of(hello);
    const row = live && registry.get(hello.runId);
    if (live === undefined || row === undefined) return;
    const { placement, launcher } = live;
    const { place } = hello;
    // A proxy that this daemon has started to deliver the rest.
    if (place === undefined) return;
    switch (admissionOf(live, row, place.job)) {
      case "another_job":
        throw over(
          hello,
          `it is served by ${launcher.describe(placement)}, and this is job ${place.job}`,
        );
      case "being_stopped":
        throw over(hello, "it is being stopped");
      case "admitted":
    }
    const nodes = placement.nodes.length > 1 ? placement.nodes : [place.host];
    this.#live.note(live, {
      job: place.job,
      phase: "running",
      waitingFor: "",
      nodes,
      gpus: place.gpus,
    });
    if (live.job.t !== "ended") live.job = { t: "running" };
    if (row.state === "INIT") this.#options.begin(registry.require(row.runId));
    this.#rounds.soon();
  }

  /** Something depends on what the engine says now. */
  ask(): void {
    this.#rounds.soon();
  }

  /** Ends the attempt's job. Call it again until the job has ended. */
  stop(attempt: { runId: string; attempt: number }, how: "graceful" | "now"): void {
    const live = this.#live.of(attempt);
    if (live !== undefined) this.#stop(live, how);
  }

  /** The attempt is over; its job is observed until it has ended. */
  release(attempt: { runId: string; attempt: number }): void {
    const live = this.#live.of(attempt);
    if (live === undefined) return;
    this.#release(live);
    if (live.job.t === "ended") this.#live.end(live);
    this.#rounds.soon();
  }

  // --------------------------------------------------------------------------------------------------------
  // rounds

  /**
   * @returns whether something has changed or is about to: jobs are being stopped, submitted, or
   * not listed
   */
  async #work(): Promise<boolean> {
    this.#placeWaiting();
    await this.#launchIntended();
    const changed = await this.#observe();
    return changed || [...this.#waiting.values()].some(({ held }) => !held) ||
      this.#live.all().some(({ job, stage, stopRequestedAt }) =>
        job.t === "unknown" || stage.t !== "requested" || stopRequestedAt > -Infinity
      );
  }

  /** Commits each placement first: the engine is asked only for committed ones. */
  #placeWaiting(): void {
    for (const [runId, { notBefore }] of this.#waiting) {
      if (this.#rounds.closed || notBefore > this.#clock()) continue;
      const row = this.#options.registry.get(runId);
      const alive = row && this.#aliveBefore(row);
      if (alive !== undefined) {
        const why =
          `the proxy of its attempt ${alive}, which is alive: it ends its worker when it reaches this daemon`;
        this.#waiting.set(runId, { notBefore: this.#clock() + ALIVE_AGAIN_MS, why });
        continue;
      }
      const turn: Turn = row === undefined || row.state !== "INIT"
        ? { t: "due" }
        : this.#options.turn(row);
      if (turn.t === "held") {
        const left = turn.until === null ? Infinity : turn.until - Date.now();
        this.#waiting.set(runId, { notBefore: this.#clock() + left, why: turn.why, held: true });
        continue;
      }
      this.#waiting.delete(runId);
      if (turn.t === "due" && row?.state === "INIT" && row.cancelRequestedAt === null) {
        this.#intend(row);
      }
    }
  }

  /**
   * An earlier attempt whose proxy holds its lock. Such an attempt was cancelled while its node did
   * not answer; its worker may still use the GPU that the next one would get. Of nodes with a disk
   * of their own the lock is not seen.
   */
  #aliveBefore(row: RunRow): number | undefined {
    const files = new RunFiles(this.#options.layout.runDir(row.baseDir, row.runId), row.workerId);
    return Array.from({ length: row.attempt - 1 }, (_, i) => row.attempt - 1 - i).find((n) =>
      proxyLockHeld(files, n)
    );
  }

  #intend(row: RunRow): void {
    const { registry } = this.#options;
    const launcher = this.#launcherOf(row)!;
    const tries = (row.placement?.tries ?? 0) + 1;
    const { runId, attempt } = row;
    const placement: Placement = {
      runId,
      attempt,
      launcher: launcher.name,
      tries,
      name: jobName({ runId, attempt, tries }),
      job: null,
      submittedAt: null,
      phase: "intended",
      waitingFor: "",
      expectedStart: null,
      nodes: [],
      gpus: [],
      end: null,
      requestedAt: Date.now(),
    };
    registry.putPlacement(placement);
    this.#live.add(placement, launcher, { t: "intended" });
  }

  async #launchIntended(): Promise<void> {
    const { registry } = this.#options;
    const due = this.#live.all().filter(({ refused }) => refused.until <= this.#clock());
    // Each question to one that does not answer takes its time: the others are asked in the next
    // round.
    const silent = new Set<Launcher>();
    const next = async (): Promise<void> => {
      for (let live = due.shift(); live !== undefined && !this.#rounds.closed; live = due.shift()) {
        const row = registry.get(live.placement.runId);
        if (row === undefined || stepOf(live, row, this.#clock()).do !== "launch") continue;
        if (silent.has(live.launcher)) continue;
        const outcome = await this.#launch(live, row);
        if (outcome.t === "no_answer") silent.add(live.launcher);
        this.#launched(live, outcome);
      }
    };
    await Promise.all(Array.from({ length: LAUNCHES }, next));
  }

  async #launch(live: LivePlacement, row: RunRow): Promise<Outcome> {
    const { layout, order } = this.#options;
    const { launcher, placement: { name } } = live;
    try {
      const plan = planOf(row.configJson);
      const files = new RunFiles(layout.runDir(row.baseDir, row.runId), row.workerId);
      const comment = `mosaic run ${row.runId}, attempt ${row.attempt}`;
      const made = order(row, plan, files);
      live.stage = { t: "requested" };
      return await launcher.launch({ name, comment, plan, files, attempt: row.attempt, ...made });
    } catch (error) {
      return { t: isShortage(error) ? "shortage" : "failed", why: messageOf(error) };
    }
  }

  #launched(live: LivePlacement, outcome: Outcome): void {
    const { placement, launcher } = live;
    const { runId, attempt, name } = placement;
    switch (outcome.t) {
      case "no_answer":
        return this.#silent.hasNotAnswered(launcher, outcome.why);
      case "failed":
        return this.#fail(live, `dispatch_error: ${outcome.why}`);
      case "shortage":
        this.#options.log.warn(
          { run_id: runId, error: outcome.why },
          "run cannot be placed for now",
        );
        this.#live.end(live);
        this.#waiting.set(runId, { notBefore: this.#clock() + SHORTAGE_MS, why: outcome.why });
        return;
    }
    this.#silent.hasAnswered(launcher);
    switch (outcome.t) {
      case "rejected":
        return this.#fail(live, `${launcher.name}_rejected: ${outcome.why}`);
      case "not_taken":
        return this.#notTaken(live, outcome.why);
      case "placed":
        live.missed = { answers: 0, since: this.#clock() };
        // Its proxy may have said hello meanwhile.
        if (placement.phase !== "intended") return;
        this.#live.note(live, { job: outcome.job, phase: "queued", waitingFor: "" });
        this.#options.log.info(
          { run_id: runId, attempt, job: outcome.job, name },
          `run given to ${launcher.name}`,
        );
    }
  }

  #fail(live: LivePlacement, reason: string): void {
    const { registry, log, onEnded } = this.#options;
    const { runId, attempt } = live.placement;
    this.#live.end(live);
    log.warn({ run_id: runId, attempt, reason }, "run could not be placed");
    const hint =
      "The config's metadata.slurm, resources and the daemon's --slurm say what is asked for.";
    onEnded(registry.apply(runId, { type: "failed", reason }, { hint }, () => ({
      kind: "failed",
      data: { reason, hint },
    })));
  }

  /** The run waits, and shows the engine's text. */
  #notTaken(live: LivePlacement, why: string): void {
    const { placement: { runId, attempt, phase, waitingFor }, launcher, refused } = live;
    if (phase !== "intended") return;
    const waitMs = Math.min(RESUBMIT_MS.most, RESUBMIT_MS.least * 2 ** refused.times);
    live.refused = { times: refused.times + 1, until: this.#clock() + waitMs };
    if (why !== waitingFor) {
      this.#options.log.warn(
        { run_id: runId, attempt, error: why },
        `${launcher.name} has not accepted a job; it is asked again`,
      );
    }
    this.#live.note(live, { waitingFor: why });
  }

  /** @returns whether an answer has changed anything */
  async #observe(): Promise<boolean> {
    let changed = false;
    const launchers = new Set(this.#live.all().map(({ launcher }) => launcher));
    for (const launcher of launchers) {
      const queried = this.#live.all().filter((live) => live.launcher === launcher);
      const observation = await launcher.observe();
      if (observation.t === "no_answer") {
        this.#silent.hasNotAnswered(launcher, observation.why);
        continue;
      }
      this.#silent.hasAnswered(launcher);
      const byName = Map.groupBy(observation.jobs, ({ name }) => name);
      // The answer does not include jobs that were added during the query.
      for (const live of queried) {
        const sightings = byName.get(live.placement.name);
        // A reported end remains valid when the engine no longer lists the job.
        if (sightings === undefined && live.job.t === "ended") this.#advance(live);
        else changed = this.#seen(live, sightings ?? await this.#remembered(live)) || changed;
      }
      for (const sighting of observation.jobs) this.#endStale(launcher, sighting);
    }
    return changed;
  }

  /** What the engine's accounting has of a job before it counts as forgotten. */
  async #remembered(live: LivePlacement): Promise<readonly Sighting[]> {
    const now = this.#clock();
    const isMissing = live.missed.answers + 1 >= FORGOTTEN.answers &&
      now - live.missed.since >= FORGOTTEN.ms;
    if (!isMissing || now - live.accountQueriedAt < ACCOUNT_AGAIN_MS) return [];
    live.accountQueriedAt = now;
    const observation = await live.launcher.remembered?.(live.placement.name);
    return observation?.t === "answer"
      ? observation.jobs.filter(({ state }) => state.t === "ended")
      : [];
  }

  /** @returns whether it has changed anything */
  #seen(live: LivePlacement, sightings: readonly Sighting[]): boolean {
    if (!this.#live.has(live) || live.stage.t === "intended") return false;
    const now = this.#clock();
    const named = sightings.length > 0;
    live.missed = named
      ? { answers: 0, since: now }
      : { ...live.missed, answers: live.missed.answers + 1 };
    const { answers, since } = live.missed;
    const seen = applySightings(live.placement, sightings, { answers, ms: now - since });
    const { placement, duplicates } = seen;
    const job = this.#settled(live, seen.job, now);
    if (job.t === "running" && job.held === undefined) live.ran++;
    const changed = live.job.t !== job.t ||
      JSON.stringify(placement) !== JSON.stringify(live.placement);
    live.job = job;
    this.#live.note(live, {
      ...placement,
      waitingFor: doubtOf(job, placement) ?? placement.waitingFor,
    });
    for (const { name, job } of duplicates) this.#stopJob(live.launcher, { name, job }, "now");
    this.#advance(live);
    return changed;
  }

  #settled(live: LivePlacement, job: Job, now: number): Job {
    const isProven = job.t === "ended" && job.end.proven;
    live.provenSince = isProven ? live.provenSince ?? now : undefined;
    live.doubted ||= job.t === "forgotten" || (job.t === "ended" && !isProven);
    if (live.provenSince === undefined) return job;
    const known = { since: live.provenSince, doubted: live.doubted };
    return settled(job, known, now, this.#options.settleMs ?? NODE_SETTLE_MS);
  }

  /**
   * Ends jobs of abandoned tries and of attempts that are over, which the engine still has or has
   * again: one whose node was given up, and came back.
   */
  #endStale(launcher: Launcher, { name, job, state }: Sighting): void {
    const parsed = readJobName(name);
    if (parsed === undefined || state.t === "ended") return;
    const live = this.#live.of(parsed);
    // This daemon does not know the run: another one may.
    const row = this.#options.registry.get(parsed.runId);
    const placement = live?.placement ?? row?.placement;
    if (row === undefined || placement == null || placement.name === name && live !== undefined) {
      return;
    }
    const isOver = parsed.attempt < row.attempt ||
      (parsed.attempt === row.attempt && isEnded(row.state));
    const isAbandoned = placement.attempt === parsed.attempt && parsed.tries < placement.tries;
    if (isAbandoned || (isOver && live === undefined)) {
      this.#stopJob(launcher, { name, job }, "now");
    }
  }

  #advance(live: LivePlacement): void {
    const { registry, log, begin } = this.#options;
    const { placement, launcher } = live;
    const row = registry.get(placement.runId);
    const step = stepOf(live, row, this.#clock());
    switch (step.do) {
      case "begin":
        return begin(row!);
      case "stop":
        return this.#stop(live, step.how);
      case "cancelled":
        return this.#cancelled(live, row!, step.reason);
      case "launch_again":
        log.warn(
          { run_id: placement.runId, name: placement.name },
          `${launcher.name} has forgotten the job; it is submitted again`,
        );
        return this.#intend(row!);
      case "release":
        return this.#release(live);
      case "forget":
        return this.#live.end(live);
      // In its round: so many at a time, and later after a refusal.
      case "launch":
      case "nothing":
    }
  }

  #release(live: LivePlacement): void {
    // Its engine has no job of it.
    if (live.stage.t === "intended") this.#live.end(live);
    else if (live.stage.t === "requested") live.stage = { t: "released", at: this.#clock() };
  }

  #cancelled(live: LivePlacement, row: RunRow, stepReason: string | null): void {
    const { registry, onEnded } = this.#options;
    this.#live.end(live);
    // The daemon has failed it (its deadline), which the engine did not know.
    const failed = stepReason === null && row.cancelRequestedAt === null &&
      row.faultRequested !== null;
    const reason = stepReason ?? (failed ? row.faultRequested! : row.cancelReason ?? "user_cancel");
    const hint = explain({ exit: undefined, faultRequested: reason, runFailed: undefined })?.hint ??
      null;
    const type = failed ? "failed" : "cancelled";
    onEnded(registry.apply(row.runId, { type, reason }, { hint }, () => ({
      kind: type,
      data: failed ? { reason, hint } : { reason },
    })));
  }

  #stop(live: LivePlacement, how: "graceful" | "now"): void {
    const now = this.#clock();
    if (
      live.stage.t === "intended" || live.job.t === "ended" ||
      now - live.stopRequestedAt < STOP_AGAIN_MS
    ) return;
    live.stopRequestedAt = now;
    const { name, job } = live.placement;
    this.#stopJob(live.launcher, { name, job }, how);
  }

  #stopJob(launcher: Launcher, job: JobRef, how: "graceful" | "now"): void {
    launcher.stop(job, how).catch((error) =>
      this.#options.log.warn(
        { ...job, error: messageOf(error) },
        `${launcher.name} did not accept a request to end a job`,
      )
    ).then(() => this.#rounds.soon());
  }

  #launcherOf(row: RunRow): Launcher | undefined {
    try {
      return this.#options.launcherOf(planOf(row.configJson));
    } catch {
      // The caller that starts the run quarantines it.
      return undefined;
    }
  }
}

function over({ runId, attempt }: ProxyHello, why: string): MosaicError {
  return new MosaicError(
    "failed_precondition",
    `attempt ${attempt} of run ${runId} has ended for this proxy: ${why}`,
  );
}
