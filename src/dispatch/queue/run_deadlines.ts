/**
 * Ends runs whose deadline passes while they run (`metadata.queue.deadline_stops`) or while an
 * engine has their job in its queue. Dispatcher and placer end those that wait themselves, when
 * they ask for the run's turn.
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import type { Placer } from "../launch/placed/placer.ts";
import { wishesOf } from "./predecessors.ts";
import { DEADLINE_PASSED } from "./turn.ts";

/** The wall clock may be set, so timers are short. */
const MOST_MS = 30_000;
const AGAIN_MS = 2000;

export interface DeadlinesOptions {
  registry: Registry;
  log: Logger;
  supervisor: Pick<Supervisor, "fault" | "adopt">;
  placer: Pick<Placer, "isPlaced" | "cancelRequested">;
  /** Waiting runs may have reached their deadlines. */
  wake: () => void;
}

export class Deadlines {
  readonly #options: DeadlinesOptions;
  /** Live runs with a deadline that matters to them; Unix milliseconds. */
  readonly #due = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Time of the next check; Infinity: none. */
  #plannedFor = Infinity;
  #begun = false;

  constructor(options: DeadlinesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#begun = true;
    for (const row of this.#options.registry.live()) this.#note(row);
    this.#check();
  }

  close(): void {
    this.#begun = false;
    clearTimeout(this.#timer);
  }

  changed(row: RunRow): void {
    const at = this.#note(row);
    if (this.#begun && at !== null && at < this.#plannedFor) this.#plan();
  }

  #note(row: RunRow): number | null {
    const at = isEnded(row.state) ? null : wishesOf(row)?.deadlineAt ?? null;
    if (at === null) this.#due.delete(row.runId);
    else this.#due.set(row.runId, at);
    return at;
  }

  #plan(leastMs = 0): void {
    clearTimeout(this.#timer);
    this.#plannedFor = Infinity;
    for (const at of this.#due.values()) this.#plannedFor = Math.min(this.#plannedFor, at);
    if (this.#due.size === 0) return;
    const inMs = Math.min(MOST_MS, Math.max(leastMs, this.#plannedFor - Date.now()));
    this.#timer = setTimeout(() => this.#check(), inMs);
  }

  #check(): void {
    const now = Date.now();
    const passed = [...this.#due].filter(([, at]) => at <= now);
    for (const [runId] of passed) {
      try {
        this.#end(runId);
      } catch (error) {
        // For example a full disk.
        this.#options.log.warn(
          { run_id: runId, error: messageOf(error) },
          "a deadline could not be entered; tried again",
        );
      }
    }
    if (passed.length > 0) this.#options.wake();
    this.#plan(AGAIN_MS);
  }

  #end(runId: string): void {
    const { registry, supervisor, placer } = this.#options;
    const row = registry.get(runId);
    if (row === undefined || isEnded(row.state)) {
      this.#due.delete(runId);
    } else if (row.state !== "INIT") {
      this.#due.delete(runId);
      if (wishesOf(row)?.deadlineAt == null) return;
      supervisor.adopt(row);
      supervisor.fault(runId, DEADLINE_PASSED);
    } else if (placer.isPlaced(row)) {
      // Durable before the engine is asked: the next daemon asks it again.
      const requested = row.faultRequested !== null
        ? row
        : registry.update(runId, { faultRequested: DEADLINE_PASSED });
      placer.cancelRequested(requested);
    }
  }
}
