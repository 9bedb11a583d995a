/**
 * An attempt with processes on the daemon's own host: found by its files, its proxy replaced by the
 * proxy keeper, ended by signals.
 */
import type { RunFiles } from "../../../base/layout.ts";
import { endCgroup, oomKilled } from "../../../os/processes/cgroups.ts";
import { freeSpaceOf } from "../../../os/host/free_space.ts";
import type { ProcessRef } from "../../../os/processes/identity.ts";
import { groupAlive, type Signal, WorkerGroups } from "../../../os/processes/signals.ts";
import { placeOfWorker } from "../../../proxy/start/start_file.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type {
  Absence,
  AbsenceStep,
  AttemptHost,
  Rest,
  WorkerGroup,
} from "../../attempt/state/host.ts";
import { exitOf, forbidWorker, workerOf } from "./attempt_files.ts";
import { ABSENCE_MS, ProxyKeeper } from "./proxy_keeper.ts";

export interface LocalAttemptOptions {
  files: RunFiles;
  now: number;
  absenceMs: number;
  /** Starts a proxy that attaches. @throws when none could be started */
  attach: (row: RunRow) => ProcessRef | undefined;
}

export class LocalAttempt implements AttemptHost {
  readonly startsProxy = true;
  readonly elsewhere = false;
  readonly apart = false;
  readonly uploads = false;
  readonly #attempt: number;
  readonly #files: RunFiles;
  readonly #keeper: ProxyKeeper;
  readonly #attach: LocalAttemptOptions["attach"];
  #worker: ProcessRef | undefined;
  /**
   * Searched for when the stop begins, whether daemon or proxy performs it: a proxy that still
   * waits for the last group is not late with its report.
   */
  #groups: WorkerGroups | undefined;

  constructor(row: RunRow, { files, now, absenceMs, attach }: LocalAttemptOptions) {
    this.#attempt = row.attempt;
    this.#files = files;
    this.#keeper = new ProxyKeeper(files, row.attempt, row.proxy ?? undefined, now, absenceMs);
    this.#attach = attach;
    this.#worker = row.worker ?? undefined;
  }

  get replacing(): boolean {
    return this.#keeper.replacing;
  }

  admit(): void {}

  proxyStarted(process: ProcessRef | undefined, now: number): void {
    this.#keeper.started(process, now);
  }
  proxySeen(process: ProcessRef, now: number): void {
    this.#keeper.seen(process, now);
  }
  proxyConnected(process: ProcessRef, worker: ProcessRef | undefined): void {
    this.#worker = worker;
    this.#keeper.connected(process);
  }
  proxyDelivered(): void {
    this.#keeper.delivered();
  }
  proxyAbsent(now: number): void {
    this.#keeper.disconnected(now);
  }
  killProxy(): void {
    this.#keeper.kill();
  }

  attach(row: RunRow, now: number): ProcessRef | undefined {
    return this.#keeper.attach(() => this.#attach(row), now);
  }

  whileAbsent({ now, registered, stoppingSince, mayReplace }: Absence): AbsenceStep {
    const stopping = stoppingSince !== undefined;
    if (stopping) {
      // The proxy may be about to start the worker. A dead proxy cannot; and a worker that it has
      // started is in a file.
      if (this.worker() === undefined) this.#keeper.kill();
      else this.#keeper.hurry(now, ABSENCE_MS.normal);
    }
    const step = this.#keeper.step(now, registered, mayReplace);
    switch (step.do) {
      case "wait":
      case "attach":
        return step;
      case "start_again":
        return stopping && !forbidWorker(this.#files, this.#attempt)
          ? { do: "wait" }
          : { do: "not_started" };
      case "give_up":
        return this.#withoutProxy();
    }
  }

  /** What to do with an attempt whose proxies keep dying. */
  #withoutProxy(): AbsenceStep {
    // Proxies that die because the disk is full will succeed when there is free space again.
    if (!freeSpaceOf(this.#files.directory).enough) return { do: "attach" };
    const exit = exitOf(this.#files, this.#attempt);
    if (exit === undefined && this.group(false) === "alive") {
      return { do: "fault", reason: "proxy_lost" };
    }
    const unknown = { lost: false, finalPosition: 0, stderrTail: [], spawnError: "" };
    return { do: "exited", report: exit === undefined ? undefined : { ...exit, ...unknown } };
  }

  /** A proxy that died before it connected has recorded it in a file. */
  worker(): ProcessRef | undefined {
    return this.#worker ??= workerOf(this.#files, this.#attempt);
  }

  newWorker(): ProcessRef | undefined {
    return this.#worker === undefined ? this.worker() : undefined;
  }

  group(stopping: boolean): WorkerGroup {
    const worker = this.worker();
    if (worker === undefined) return "unknown";
    if (stopping) this.#groups ??= new WorkerGroups(worker);
    return this.#groups?.alive() ?? groupAlive(worker) ? "alive" : "gone";
  }

  signal(signal: Signal): void {
    const worker = this.worker();
    if (worker === undefined) return;
    (this.#groups ??= new WorkerGroups(worker)).signal(signal);
  }

  /** Processes that have left the worker's group are still in its cgroup. */
  endRest(): Rest {
    const { cgroup } = placeOfWorker(this.#files.proxyFile(this.#attempt));
    if (cgroup === undefined) return { ended: true };
    const oom = oomKilled(cgroup) ? { limitMb: cgroup.memoryMb } : undefined;
    return { ended: endCgroup(cgroup.path), oom };
  }

  release(): void {
    const { cgroup } = placeOfWorker(this.#files.proxyFile(this.#attempt));
    if (cgroup !== undefined) endCgroup(cgroup.path);
  }
}
