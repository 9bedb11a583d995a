/**
 * Performs the proxy's effects on the worker's process: start, signals, control messages, end.
 * Results come back as events.
 */
import { messageOf } from "../../base/errors.ts";
import type { RunFiles } from "../../base/layout.ts";
import { groupAlive, signalGroup } from "../../os/processes/signals.ts";
import { writeRecord } from "../../os/files/untrusted_changes.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { readControlRecord, writeControlRecord } from "../state/control_record.ts";
import { GroupEnd } from "./end_group.ts";
import type {
  ControlRecord,
  Event,
  WorkerRequest,
  WorkerSettings,
} from "../state/events_and_effects.ts";
import type { Journal } from "../../journal/journal.ts";
import type { Logger } from "../../base/log.ts";
import type { EventQueue } from "../state/queue.ts";
import { retryOnShortage } from "../state/retry_on_shortage.ts";
import { lastLines } from "../../journal/tail.ts";
import { attachWorker, startWorker, type Worker, type WorkerStart } from "./worker.ts";
import { WorkerInput } from "./worker_input.ts";

const STDERR_LINES = 20;

export interface WorkerPlan {
  files: RunFiles;
  attempt: number;
  /** undefined: an earlier proxy has started the worker. */
  start: WorkerStart | undefined;
  /**
   * Preparations before its start. @returns additions to its environment @throws errors that
   * prevent the start for good
   */
  prepare?:
    | ((signal: AbortSignal, settings?: WorkerSettings) => Promise<Record<string, string>>)
    | undefined;
  /** Called when it was started or found; processes started after this are not the worker's. */
  started?: (() => void) | undefined;
  /**
   * Cleanup after its end and before the end is reported, because then the next attempt may begin.
   */
  clear?: (() => Promise<void>) | undefined;
}

export class WorkerHandle {
  readonly #plan: WorkerPlan;
  readonly #journal: Journal;
  readonly #queue: EventQueue<Event>;
  readonly #log: Logger;
  readonly #input: WorkerInput;
  readonly #closed = new AbortController();
  #leader: ProcessRef | undefined;
  #groupEnd: GroupEnd | undefined;
  /** The worker's exit is known. */
  #hasEnded = false;
  /** What `endGroup` has begun is over. */
  #groupHasEnded = false;

  constructor(plan: WorkerPlan, journal: Journal, queue: EventQueue<Event>, log: Logger) {
    this.#plan = plan;
    this.#journal = journal;
    this.#queue = queue;
    this.#log = log;
    this.#input = new WorkerInput(plan.files.stdinFifo(plan.attempt), log);
  }

  async start(settings?: WorkerSettings): Promise<void> {
    const { files, attempt, start, prepare } = this.#plan;
    let added: Record<string, string> | undefined;
    try {
      if (start !== undefined) added = await prepare?.(this.#closed.signal, settings);
    } catch (error) {
      return this.#neverStarted(messageOf(error));
    }
    let worker: Worker;
    let inherited: ControlRecord | undefined;
    try {
      worker = start === undefined ? await attachWorker(files, attempt) : await startWorker(
        files,
        attempt,
        { ...start, env: { ...start.env, ...added } },
        this.#log,
      );
      if (start === undefined) inherited = readControlRecord(files, attempt);
    } catch (error) {
      return this.#queue.fail(error);
    }
    this.#leader = worker.leader;
    this.#plan.started?.();
    this.#queue.put({ tag: "worker_started", leader: worker.leader, inherited });
    try {
      const { exit } = await worker.ended;
      const byItself = start !== undefined && this.#groupEnd === undefined;
      await this.#plan.clear?.();
      const { leader } = worker;
      const rest = leader !== undefined && await retryOnShortage(() => groupAlive(leader));
      this.#hasEnded = true;
      if (!rest || this.#groupHasEnded) await this.#endJournal();
      this.#queue.put({
        tag: "worker_exited",
        end: { exit, stderrTail: await this.#stderrTail(), byItself },
        rest,
      });
    } catch (error) {
      this.#queue.fail(error);
    }
  }

  #neverStarted(spawnError: string): void {
    if (this.#closed.signal.aborted) return;
    this.#log.error({ error: spawnError }, "the worker is not started");
    this.#queue.put({ tag: "worker_started", leader: undefined, inherited: undefined });
    const exit = { code: null, signal: "", endedAt: null, spawnError };
    this.#queue.put({ tag: "worker_exited", end: { exit, stderrTail: [] } });
  }

  async #stderrTail(): Promise<string[]> {
    const { files, attempt } = this.#plan;
    return await retryOnShortage(() => lastLines(files.stderr(attempt), STDERR_LINES));
  }

  /**
   * No process of the group is left. Others that have left it may still append: their later output
   * is not the worker's.
   */
  async #endJournal(): Promise<void> {
    await retryOnShortage(() => this.#journal.endHere());
  }

  signal(signal: "SIGSTOP" | "SIGCONT", outside: boolean): void {
    if (this.#leader === undefined) return;
    try {
      signalGroup(this.#leader, signal, { outside });
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, "the worker's group cannot be signalled");
      this.#queue.put({ tag: "group_not_signalled" });
    }
  }

  request(control: WorkerRequest): void {
    this.#input.send(control);
  }

  endGroup(graceS: number): void {
    if (this.#groupEnd !== undefined) return this.#groupEnd.shorten(graceS);
    if (this.#leader === undefined) return;
    this.#groupEnd = new GroupEnd(this.#leader, graceS);
    this.#groupEnd.done.catch((error) => {
      this.#log.error(
        { error: messageOf(error) },
        "the worker's group cannot be ended; not waiting for it any longer",
      );
    }).then(async () => {
      this.#groupHasEnded = true;
      // Otherwise this follows when the exit is known.
      if (this.#hasEnded) await this.#endJournal();
      this.#queue.put({ tag: "group_ended" });
    }).catch((error) => this.#queue.fail(error));
  }

  writeRecord(record: ControlRecord): void {
    try {
      writeControlRecord(this.#plan.files, this.#plan.attempt, record);
    } catch (error) {
      this.#log.warn(
        { error: messageOf(error) },
        "desired control could not be written for a later proxy",
      );
    }
  }

  recordLeaseEnd(): void {
    const { files, attempt } = this.#plan;
    try {
      writeRecord(files.leaseEnd(attempt), "");
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, "the expired lease could not be recorded");
    }
  }

  /** Kills it: nothing of it can be kept any more. */
  giveUp(): void {
    if (this.#leader !== undefined) signalGroup(this.#leader, "SIGKILL", { outside: true });
  }

  close(): void {
    this.#closed.abort();
    this.#input.close();
  }
}
