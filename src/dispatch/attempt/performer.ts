/**
 * Performs the effects of attempts: writes to the registry, messages to proxies, process control by
 * their host.
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import type { LifecycleEvent } from "../../registry/lifecycle/lifecycle.ts";
import type { EventToAppend } from "../../registry/event_kinds.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { DesiredControl } from "./state/connected_proxy.ts";
import type { Alerts } from "./state/alerts.ts";
import type { Attempt } from "./attempt.ts";
import type { Effect } from "./state/attempt_state.ts";
import type { Ends } from "./ends.ts";
import type { Intake } from "./records/intake.ts";
import type { Ticker } from "./ticker.ts";

/** Between two ticks while something is being stopped. */
export const BUSY_TICK_MS = 100;

export interface Supervised {
  readonly attempt: Attempt;
  readonly intake: Intake;
  readonly alerts: Alerts;
}

export interface PerformerOptions {
  registry: Registry;
  log: Logger;
  /** All supervised attempts, by run id; ended ones are removed. */
  runs: Map<string, Supervised>;
  ends: Ends;
  ticker: Ticker;
  graceMs: number;
  /** A run has ended, waits again, or has registered. */
  onChanged: (row: RunRow) => void;
  /** Milliseconds of a monotonic clock. */
  clock: () => number;
}

export class Performer {
  readonly #options: PerformerOptions;
  /** Errors that last kept runs from being supervised. */
  readonly #troubles = new Map<string, string>();

  constructor(options: PerformerOptions) {
    this.#options = options;
  }

  /** @param mayReplace see Absence */
  perform(supervised: Supervised, effects: readonly Effect[], mayReplace = false): void {
    for (const effect of effects) this.#performOne(supervised, effect, mayReplace);
  }

  #performOne(supervised: Supervised, effect: Effect, mayReplace: boolean): void {
    const { ticker, log, clock } = this.#options;
    const { attempt } = supervised;
    const { host } = attempt;
    switch (effect.do) {
      case "fault":
        return this.fault(supervised, effect.reason);
      case "tell_proxy":
        return effect.link.stop(effect.graceSeconds);
      case "signal":
        for (const signal of effect.signals) host.signal(signal);
        return;
      case "disconnect":
        return effect.link.close(effect.reason);
      case "replace_proxy":
        log.warn({ run_id: attempt.runId }, "the proxy does not report an exit and is replaced");
        return host.killProxy();
      case "keep_proxy":
        return this.#keepProxy(supervised, effect.stoppingSince, mayReplace);
      case "attach":
        return this.#attach(attempt);
      case "end_rest":
        return this.perform(supervised, attempt.rest(host.endRest(effect.report, clock())));
      case "settle":
        return this.#settle(supervised);
      case "wake":
        return ticker.within(BUSY_TICK_MS);
      case "tick_soon":
        return queueMicrotask(() =>
          this.guarded(attempt, () => this.perform(supervised, attempt.tick(clock())))
        );
    }
  }

  #keepProxy(supervised: Supervised, stoppingSince: number | undefined, mayReplace: boolean): void {
    const { attempt } = supervised;
    const now = this.#options.clock();
    const registered = attempt.progress.state !== "HANDSHAKE";
    const step = attempt.host.whileAbsent({ now, registered, stoppingSince, mayReplace });
    if (step.do === "exited") {
      this.#options.log.error(
        { run_id: attempt.runId, exit: step.report },
        "proxies keep dying: the run ends with the telemetry stored so far",
      );
    }
    this.perform(supervised, attempt.absence(step, now));
  }

  #attach(attempt: Attempt): void {
    const { registry, log, clock } = this.#options;
    const about = { run_id: attempt.runId, attempt: attempt.attempt };
    let process: ProcessRef | undefined;
    try {
      process = attempt.host.attach(this.row(attempt), clock());
    } catch (error) {
      log.error({ ...about, error: messageOf(error) }, "no proxy could be started; trying again");
      return;
    }
    log.warn(about, "the proxy is gone; a new one attaches");
    try {
      registry.update(attempt.runId, { proxy: process ?? null });
    } catch (error) {
      // Needed only by a daemon that starts before the proxy has connected; the attempt's lock
      // shows the proxy as well.
      log.warn(
        { ...about, error: messageOf(error) },
        "the proxy could not be written to the registry",
      );
    }
  }

  #settle(supervised: Supervised): void {
    const { runs, ends, onChanged, clock } = this.#options;
    const { attempt, intake } = supervised;
    const { runId, host } = attempt;
    const { phase } = attempt.state;
    if (phase.t !== "ended" || runs.get(runId) !== supervised) return;
    host.release();
    try {
      attempt.arrivals?.ended();
    } catch (error) {
      this.#options.log.warn(
        { run_id: runId, error: messageOf(error) },
        "incomplete uploads could not be removed",
      );
    }
    const row = ends.commit(attempt, phase.ended, clock(), () => intake.entries.failed());
    runs.delete(runId);
    this.#troubles.delete(runId);
    onChanged(row);
  }

  /** The daemon fails the run: recorded first, then stopped. */
  fault(supervised: Supervised, reason: string): void {
    const { registry, log, graceMs, clock } = this.#options;
    const { attempt } = supervised;
    const { runId } = attempt;
    const row = this.row(attempt);
    if (row.faultRequested === null && row.cancelRequestedAt === null) {
      registry.update(runId, { faultRequested: reason });
      attempt.faultedHere = true;
      log.warn({ run_id: runId, attempt: attempt.attempt, reason }, "run is stopped");
    } else if (attempt.state.phase.t !== "running") {
      return;
    }
    this.perform(supervised, attempt.stop(graceMs, clock(), reason === "heartbeat_timeout"));
  }

  /**
   * Enters the alerts of broken rules, and performs their actions. @throws what keeps an alert from
   * being recorded: the others stay due
   */
  alert(supervised: Supervised): void {
    const { registry, log, graceMs, clock } = this.#options;
    const { attempt, alerts: { due } } = supervised;
    const { runId } = attempt;
    for (; due.length > 0; due.shift()) {
      const { rule, what } = due[0]!;
      registry.appendEvent(runId, "alert", { alert: rule.name, what, then: rule.then });
      log.warn(
        { run_id: runId, attempt: attempt.attempt, alert: rule.name, then: rule.then },
        what,
      );
      if (rule.then === "pause") {
        registry.update(runId, { pauseRequested: true });
        attempt.pausedBy = `alert: ${what}`;
        this.sendControl(attempt);
      } else if (rule.then === "cancel" && this.row(attempt).cancelRequestedAt === null) {
        registry.update(runId, { cancelRequestedAt: Date.now(), cancelReason: `alert: ${what}` });
        this.perform(supervised, attempt.stop(graceMs, clock()));
      }
    }
  }

  apply(attempt: Attempt, event: LifecycleEvent, furtherEvent?: () => EventToAppend): void {
    const { registry, onChanged, clock } = this.#options;
    const row = registry.apply(attempt.runId, event, {}, furtherEvent);
    attempt.progress.stateIs(row.state, clock());
    if (event.type === "registered") onChanged(row);
  }

  /** The worker or its proxy is alive; if the journal has grown, there is new output. */
  alive(attempt: Attempt, journalSize = attempt.progress.journalSize): void {
    attempt.progress.alive(journalSize, this.#options.clock());
    this.#options.registry.touchHeartbeat(attempt.runId, Date.now());
  }

  /** The worker has produced a record. */
  active(attempt: Attempt): void {
    const worker = attempt.host.newWorker();
    if (worker !== undefined) this.#options.registry.update(attempt.runId, { worker });
    const { state } = attempt.progress;
    if (state === "HANDSHAKE" || state === "READY") this.apply(attempt, { type: "active" });
  }

  desired(attempt: Attempt): DesiredControl {
    return attempt.desired(this.row(attempt));
  }

  /** Sends the desired control to the proxy, if one is connected. */
  sendControl(attempt: Attempt): void {
    attempt.link?.control(this.desired(attempt));
  }

  row({ runId }: Attempt): RunRow {
    return this.#options.registry.require(runId);
  }

  /**
   * Logs an error that keeps a run from being supervised, once, and leaves the work to the next
   * tick.
   */
  guarded({ runId }: Attempt, work: () => void): void {
    try {
      work();
      this.#troubles.delete(runId);
    } catch (error) {
      // For example a full disk: nothing was committed.
      const trouble = messageOf(error);
      if (this.#troubles.get(runId) !== trouble) {
        this.#options.log.error(
          { run_id: runId, error: trouble },
          "run could not be supervised; trying again",
        );
      }
      this.#troubles.set(runId, trouble);
    }
  }
}
