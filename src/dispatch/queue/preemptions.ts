/**
 * Stops the runs that preempt.ts chooses: a worker that reads messages is asked for a checkpoint
 * first and has some time for it; then the stop is committed (`fault_requested`), and SIGTERM
 * follows. A daemon that dies before the commit has done nothing that counts, and the next one
 * decides by the same facts; after it, the next one stops the run.
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { planIfReadable } from "../../config/plan.ts";
import { PREEMPTED } from "../attempt/state/restart.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import { wishOf } from "../gpus/sharing.ts";
import type { Registry } from "../../registry/registry.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { InVain } from "./in_vain.ts";
import { type Blocked, type Preemption, preemptionsForAble, type Runner } from "./preempt.ts";

/** How long a worker may take to save the checkpoint that it was asked for. */
const CHECKPOINT_MS = 60_000;
/** Between two searches for that checkpoint. */
const AGAIN_MS = 500;

export interface PreemptionsOptions {
  registry: Registry;
  log: Logger;
  supervisor: Pick<Supervisor, "idsHere" | "fault" | "askCheckpoint">;
  ownerOf: (row: RunRow) => string;
  /**
   * What would keep a run from starting if it had its place now; undefined: nothing that is known.
   */
  troubleOf: (row: RunRow) => string | undefined;
  /** It is time for another pass. */
  wake: () => void;
  /** A test's. */
  checkpointMs?: number | undefined;
}

export class Preemptions {
  readonly #options: PreemptionsOptions;
  /** Registered runs that may be preempted. */
  readonly #preemptible = new Set<string>();
  /**
   * Runs that were asked for a checkpoint: when, milliseconds of a monotonic clock, and after which
   * event.
   */
  readonly #asked = new Map<string, { at: number; seq: number }>();
  readonly #inVain = new InVain();
  /** Started runs that have not registered. */
  readonly #starting = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: PreemptionsOptions) {
    this.#options = options;
  }

  start(): void {
    for (const runId of this.#options.supervisor.idsHere()) {
      const row = this.#options.registry.get(runId);
      if (row !== undefined) this.changed(row);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  changed(row: RunRow): void {
    const { runId, state, configJson } = row;
    // Before it has registered nothing is known of its worker.
    const isUp = state === "READY" || state === "EXECUTING" || state === "PAUSED";
    if (isUp) this.#inVain.cameUp(runId);
    if (isEnded(state)) this.#inVain.ended(runId);
    if (state !== "HANDSHAKE" && this.#starting.delete(runId) && state === "INIT") {
      this.#startFailed(runId);
    }
    if (
      isUp && configJson.includes('"queue":{') &&
      planIfReadable(configJson)?.queue.preemptible === true
    ) {
      this.#preemptible.add(runId);
    } else {
      this.#preemptible.delete(runId);
      this.#asked.delete(runId);
    }
  }

  /** A run has had its place, and was started or waits again. */
  tried({ runId, state }: RunRow): void {
    if (state === "HANDSHAKE") this.#starting.add(runId);
    else if (state === "INIT") this.#startFailed(runId);
  }

  #startFailed(runId: string): void {
    this.#inVain.startFailed(runId, performance.now());
  }

  /**
   * After each pass. @param room see preempt.ts @param unsure which runs lack GPUs is not known for
   * the moment: those that were asked stay asked
   */
  check(blocked: readonly Blocked[], room: { places: number; gpus: number }, unsure = false): void {
    clearTimeout(this.#timer);
    if (this.#preemptible.size === 0) return;
    const chosen = this.#choose(blocked, room);
    for (const runId of this.#asked.keys()) {
      // The run that needed its place is gone, or got another.
      if (!unsure && !chosen.some(({ victim }) => victim === runId)) this.#asked.delete(runId);
    }
    for (const { victim, by } of chosen) {
      try {
        this.#preempt(victim, by);
      } catch (error) {
        // For example a full disk: the next pass tries again.
        this.#options.log.warn(
          { run_id: victim, error: messageOf(error) },
          "run could not be preempted for now",
        );
      }
    }
    if (chosen.length > 0) this.#timer = setTimeout(() => this.#options.wake(), AGAIN_MS);
  }

  /** Nobody gives way to a run that could not start anyway. */
  #choose(blocked: readonly Blocked[], room: { places: number; gpus: number }): Preemption[] {
    const now = performance.now();
    const able = blocked.filter(({ runId }) => this.#inVain.mayPreempt(runId, now));
    if (able.length === 0) return [];
    return preemptionsForAble(able, this.#runners(now), room, (runId) => {
      const row = this.#options.registry.get(runId);
      return row !== undefined && this.#options.troubleOf(row) === undefined;
    });
  }

  #runners(now: number): Runner[] {
    const { registry, supervisor } = this.#options;
    return supervisor.idsHere().flatMap((runId) => {
      const row = registry.get(runId);
      if (row === undefined) return [];
      return [{
        runId,
        owner: this.#options.ownerOf(row),
        priority: row.priority,
        // The end of a run that shares a card frees a part of it only.
        gpus: wishOf(row) === undefined ? row.gpuSlots.length : 0,
        startedAt: row.startedAt ?? 0,
        ending: row.cancelRequestedAt !== null || row.faultRequested !== null,
        preemptible: this.#preemptible.has(runId) && !this.#inVain.isSpared(runId, now),
        asked: this.#asked.has(runId),
      }];
    });
  }

  #preempt(runId: string, by: string): void {
    const { registry, log, supervisor, checkpointMs = CHECKPOINT_MS } = this.#options;
    const asked = this.#asked.get(runId);
    const now = performance.now();
    if (asked === undefined) {
      const seq = registry.eventHead();
      const answer = supervisor.askCheckpoint(runId);
      if (answer === "unconnected") return;
      if (answer === "asked") {
        log.info({ run_id: runId, by }, "run is asked for a checkpoint, to give way");
        this.#asked.set(runId, { at: now, seq });
        return;
      }
    }
    const saved = asked !== undefined &&
      registry.eventsSince(asked.seq, { runId, kinds: ["checkpoint_saved"], limit: 1 }).length > 0;
    if (asked !== undefined && !saved && now - asked.at < checkpointMs) return;
    this.#asked.delete(runId);
    registry.appendEvent(runId, "preempted", {
      by,
      priority: registry.get(by)?.priority ?? null,
      asked: asked !== undefined,
      saved,
    });
    supervisor.fault(runId, PREEMPTED);
    this.#inVain.gaveWay(runId, by);
  }
}
