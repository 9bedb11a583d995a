/**
 * What a daemon does before it starts runs: it recovers the runs of an earlier daemon, and ends
 * orphans.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { parametersOf } from "../../config/parameters.ts";
import type { Logger } from "../../base/log.ts";
import { isEnded, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import { PREEMPTED } from "../attempt/state/restart.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import type { Dispatcher } from "../queue/dispatcher.ts";
import type { Placer } from "../launch/placed/placer.ts";
import type { LocalHost } from "../launch/local/local_host.ts";
import type { Recovery } from "./boot_recovery.ts";
import type { Cleanup } from "./cleanup.ts";
import { type Control, requireWhole } from "./control.ts";

export interface BootOptions {
  registry: Registry;
  log: Logger;
  host: LocalHost;
  gpus: GpuPool;
  recovery: Recovery;
  supervisor: Supervisor;
  dispatcher: Dispatcher;
  placer: Placer;
  control: Control;
  cleanup: Cleanup;
}

/** Runs whose configs are read in one transaction. */
const RUNS_AT_ONCE = 50;

export class Boot {
  readonly #options: BootOptions;
  /** Clients and proxies can connect. */
  #begun = false;
  #closed = false;

  constructor(options: BootOptions) {
    this.#options = options;
  }

  /**
   * Recovers runs and GPU slots, and retries what cannot be recovered yet. Call it before proxies
   * can connect.
   */
  recover(): void {
    const { registry, log, gpus, dispatcher, recovery, supervisor } = this.#options;
    recovery.do({
      what: "the host's GPU slots",
      keepsBack: "gpus",
      work: () => gpus.enter(registry, () => dispatcher.wake()),
    });
    for (const { runId, state } of [...registry.live(), ...registry.ofUnknownState()]) {
      recovery.do({
        what: "run",
        runId,
        ...(RUNNING_STATES.includes(state) ? { keepsBack: "a place" } : {}),
        work: () => this.#recoverRun(runId),
        quarantine: (why) => this.#quarantine(runId, why),
      });
    }
    if (supervisor.size > 0) {
      log.info({ runs: supervisor.size }, "runs of an earlier daemon recovered");
    }
  }

  /** Call it when clients and proxies can connect, before runs are dispatched. */
  begin(): void {
    this.#begun = true;
    this.#options.supervisor.children.resume();
    this.#endOrphans();
    this.#readDueParameters().catch((error) => {
      this.#options.log.error(
        { err: messageOf(error) },
        "parameters of earlier runs not read; the next start tries again",
      );
    });
    this.#options.recovery.do({ what: "deletions", work: () => this.#options.cleanup.resume() });
    for (const runId of this.#restartable()) {
      this.#options.recovery.do({
        what: "the next attempt",
        runId,
        work: () => this.#restart(runId),
      });
    }
  }

  /** Parameters of runs that an earlier version entered. */
  async #readDueParameters(): Promise<void> {
    const { registry } = this.#options;
    while (
      !this.#closed &&
      registry.readDueParameters(RUNS_AT_ONCE, (json) => parametersOf(json).parameters) > 0
    ) {
      await yieldToOthers();
    }
  }

  /** The registry is about to be closed. */
  close(): void {
    this.#closed = true;
  }

  /** Failed runs that may have attempts left. */
  *#restartable(): Generator<string> {
    let token: string | undefined;
    do {
      const page = this.#options.registry.list({ states: ["FAULTED"] }, { limit: 1000, token });
      for (const { runId, attempt, maxAttempts, faultRequested, damaged } of page.runs) {
        if (
          (attempt < maxAttempts || faultRequested === "reset" || faultRequested === PREEMPTED) &&
          damaged.length === 0
        ) yield runId;
      }
      token = page.nextToken;
    } while (token !== undefined);
  }

  /** The run may have been deleted before this is entered. */
  #restart(runId: string): void {
    const { registry, supervisor, cleanup } = this.#options;
    const row = registry.get(runId);
    if (row !== undefined && !cleanup.isDeleting(runId)) supervisor.restartIfDue(row);
  }

  /**
   * Reads the run again: while this waited, somebody may have cancelled it, and so recovered it.
   */
  #recoverRun(runId: string): void {
    const { registry, control, placer } = this.#options;
    const row = registry.get(runId);
    if (row === undefined || (isEnded(row.state) && !row.damaged.includes("state"))) return;
    requireWhole(row);
    if (RUNNING_STATES.includes(row.state)) control.supervised(row);
    else if (row.cancelRequestedAt !== null && !placer.isPlaced(row)) control.cancelWaiting(row);
  }

  /**
   * A run that cannot be supervised is FAULTED; its proxy is refused at its hello, and its group is
   * ended.
   */
  #quarantine(runId: string, why: unknown): void {
    const { registry, dispatcher } = this.#options;
    const reason = `recovery_failed: ${messageOf(why)}`;
    const hint = why instanceof MosaicError ? why.hint ?? null : null;
    const row = registry.apply(runId, { type: "failed", reason }, { hint }, () => ({
      kind: "failed",
      data: { reason, hint },
    }));
    dispatcher.changed(row);
    if (this.#begun) this.#endOrphans();
  }

  #endOrphans(): void {
    const { registry, host, recovery, supervisor } = this.#options;
    host.endOrphans({
      supervised: (runId) =>
        recovery.waits(runId) ? registry.get(runId)?.attempt : supervisor.get(runId)?.attempt,
      isKnown: (runId) => registry.known(runId) !== undefined,
    });
  }
}
