/**
 * Everything the daemon may do on the host of a run's processes. Three hosts implement it: the
 * daemon's own (launch/local/local_host.ts: pids, groups, cgroups, locks and files of the attempt),
 * one chosen by an engine (launch/placed/placed_host.ts), and one that the daemon cannot reach,
 * where somebody else starts the proxy (launch/external_host.ts).
 */
import type { RunPlan } from "../../../config/plan.ts";
import type { RunFiles } from "../../../base/layout.ts";
import type { ProcessRef } from "../../../os/processes/identity.ts";
import type { Signal } from "../../../os/processes/signals.ts";
import type { ExitReport, OutOfMemory } from "../../../registry/failure/explain.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { ProxyHello, WorkerSettings } from "./connected_proxy.ts";

/** One per daemon and kind of host. */
export interface Host {
  /** Handshake limit for runs whose config sets none, milliseconds. */
  readonly handshakeMs: number;
  /** @throws MosaicError when the worker's command cannot be built */
  launch(row: RunRow, plan: RunPlan, files: RunFiles): Launch;
  /** @param absenceMs how long an already started proxy may stay disconnected from now on */
  attempt(
    row: RunRow,
    known: { plan: RunPlan; files: RunFiles; now: number; absenceMs: number },
  ): AttemptHost;
}

/** The start of one attempt, step by step; launch/starter.ts has the order. */
export interface Launch {
  /** One sentence for each failed preflight check. @throws a temporary shortage */
  check(): Promise<string[]>;
  /** Writes what proxy and worker need before the transition `spawned` is committed. */
  prepare(sessionToken: string): void;
  /**
   * Starts the proxy. Undefined if somebody else starts it, or if it ended at once. @throws when no
   * process can be created
   */
  start(row: RunRow): ProcessRef | undefined;
  /** For the log. */
  readonly started: string;
}

/**
 * Why an engine has ended the attempt's job, if the worker did not end by itself
 * (placement_state.ts).
 */
export interface EngineEnd {
  /** From docs/reference/operations.md: `time_limit`, `job_cancelled`, … */
  reason: string;
  /** The engine's own text. */
  text: string;
}

/**
 * Whether a process of the worker lives. "unknown": no worker was started, or it runs where this
 * daemon cannot see processes.
 */
export type WorkerGroup = "unknown" | "alive" | "gone";

/** What to do while no proxy is connected. */
export type AbsenceStep =
  | { do: "wait" }
  /** A new proxy attaches to the worker. */
  | { do: "attach" }
  /** No worker was started, and none will be. */
  | { do: "not_started" }
  /** No report will come. */
  | { do: "over"; engine?: EngineEnd | undefined }
  | { do: "fault"; reason: string }
  /** No proxy stays alive here: `report` is what is known of the exit without one. */
  | { do: "exited"; report: ExitReport | undefined };

export interface Absence {
  now: number;
  /** The run is past HANDSHAKE. */
  registered: boolean;
  /** When the stop of the worker began; undefined: the worker is to run on. */
  stoppingSince: number | undefined;
  /**
   * False while so many other proxies are being replaced that another replacement would only slow
   * them down.
   */
  mayReplace: boolean;
}

export interface Rest {
  ended: boolean;
  oom?: OutOfMemory | undefined;
  engine?: EngineEnd | undefined;
}

/** One attempt's processes. */
export interface AttemptHost {
  /**
   * This daemon starts the proxy: until it has registered, the attempt counts among
   * `--max-starting`.
   */
  readonly startsProxy: boolean;
  /** Its processes do not count towards `--max-runs`. */
  readonly elsewhere: boolean;
  /** Its worker shares no files with other runs of this daemon. */
  readonly apart: boolean;
  /** Its files are on another disk: the proxy uploads them. */
  readonly uploads: boolean;
  /** A missing or hung proxy was replaced, and the new one has not connected yet. */
  readonly replacing: boolean;

  /** @throws MosaicError `failed_precondition` when this proxy must not serve the attempt */
  admit(row: RunRow, hello: ProxyHello): void;
  /** Settings for a worker whose start file this daemon has not written. */
  workerSettings?(row: RunRow): WorkerSettings;
  /** The attempt's first proxy was started, not a replacement. */
  proxyStarted(process: ProcessRef | undefined, now: number): void;
  /** A proxy has said hello: it is alive, even if it cannot be admitted now. */
  proxySeen(process: ProcessRef, now: number): void;
  proxyConnected(process: ProcessRef, worker: ProcessRef | undefined): void;
  /** Something of the connected proxy is stored. */
  proxyDelivered(): void;
  proxyAbsent(now: number): void;
  whileAbsent(absence: Absence): AbsenceStep;
  /**
   * Starts a proxy that attaches. Undefined if it ended at once. @throws when none could be started
   */
  attach(row: RunRow, now: number): ProcessRef | undefined;
  killProxy(): void;

  /** Where to look when nothing was started and no log is on this host. */
  withoutLog?(): string;
  /** The engine has stopped the worker for a while; its limits of time wait. */
  readonly held?: boolean;
  /**
   * Whether a silence that reaches a limit is the worker's own; asked again until it is, or until
   * it is `heard`.
   */
  confirmsSilence?(): boolean;
  heard?(): void;

  /** The leader of the worker's process group. */
  worker(): ProcessRef | undefined;
  /** The same, but only if this call has found it. */
  newWorker(): ProcessRef | undefined;
  /**
   * @param stopping includes the groups that the worker has started itself; they are searched at
   * the first such call
   */
  group(stopping: boolean): WorkerGroup;
  signal(signal: Signal): void;
  /**
   * Ends processes that have left the worker's group but not its cgroup, and returns what the host
   * knows of the end besides the report. `ended` is false while the kernel is still ending them, or
   * the engine's answer is awaited.
   */
  endRest(report: ExitReport | undefined, now: number): Rest;
  /** Removes what the host keeps for the attempt, also if its worker was never started. */
  release(): void;
}
