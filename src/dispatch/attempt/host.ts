/**
 * What the daemon may do to the host that a run's processes are on, and to nothing else. Three hosts implement it: the
 * daemon's own (launch/local/local_host.ts: pids, groups, cgroups, locks and files of the attempt), one that an engine has
 * chosen (launch/placed/placed_host.ts), and one that it cannot reach (launch/external_host.ts), where somebody else starts
 * the proxy.
 */
import type { RunPlan } from "../../config/plan.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { ProcessRef } from "../../os/identity.ts";
import type { Signal } from "../../os/signals.ts";
import type { ExitReport, OutOfMemory } from "../../registry/failure/explain.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { ProxyHello, WorkerSettings } from "../core/core.ts";

/** One per daemon and kind of host. */
export interface Host {
  /** Limit of the handshake for runs whose config names none, milliseconds. */
  readonly handshakeMs: number;
  /** @throws MosaicError when the worker's command cannot be built */
  launch(row: RunRow, plan: RunPlan, files: RunFiles): Launch;
  /** @param absenceMs how long a proxy that is started already may stay away from now on */
  attempt(row: RunRow, known: { plan: RunPlan; files: RunFiles; now: number; absenceMs: number }): AttemptHost;
}

/** The start of one attempt, step by step; see launch/starter.ts for their order. */
export interface Launch {
  /** The preflight checks that fail, a sentence each. @throws a temporary shortage */
  check(): Promise<string[]>;
  /** Writes what proxy and worker need before the transition `spawned` is committed. */
  prepare(sessionToken: string): void;
  /**
   * Starts the proxy. Undefined where somebody else starts it, or when it was gone at once.
   * @throws when no process can be created
   */
  start(row: RunRow): ProcessRef | undefined;
  /** For the log. */
  readonly started: string;
}

/** How an engine says that the attempt's job has ended, where that is not its worker's own doing (placement_state.ts). */
export interface EngineEnd {
  /** From docs/operations.md: `time_limit`, `job_cancelled`, … */
  reason: string;
  /** The engine's own words. */
  said: string;
}

/** Whether a process of the worker lives. "unknown": no worker was started, or it runs where this daemon cannot see processes. */
export type WorkerGroup = "unknown" | "alive" | "gone";

/** What is to be done while no proxy is connected. */
export type AbsenceStep =
  | { do: "wait" }
  /** A new proxy attaches to the worker. */
  | { do: "attach" }
  /** No worker was started, and none will be. */
  | { do: "not_started" }
  /** Nothing more will be reported. */
  | { do: "over"; engine?: EngineEnd | undefined }
  | { do: "fault"; reason: string }
  /** No proxy survives here: this is what is known of the exit without one. */
  | { do: "exited"; report: ExitReport | undefined };

export interface Absence {
  now: number;
  /** The run is past HANDSHAKE. */
  registered: boolean;
  /** When the stop of the worker began; undefined while it is to run on. */
  stoppingSince: number | undefined;
  /** False while so many other proxies are being replaced that one more would only slow them down. */
  mayReplace: boolean;
}

export interface Rest {
  ended: boolean;
  oom?: OutOfMemory | undefined;
  engine?: EngineEnd | undefined;
}

/** One attempt's processes. */
export interface AttemptHost {
  /** This daemon starts the proxy: until it has registered, the attempt counts among `--max-starting`. */
  readonly startsProxy: boolean;
  /** Its processes are not among those that `--max-runs` limits. */
  readonly elsewhere: boolean;
  /** No other run of this daemon sees its worker's files, nor it theirs. */
  readonly apart: boolean;
  /** Its files are on another disk: the proxy uploads them. */
  readonly uploads: boolean;
  /** A proxy that is gone or hung was replaced, and its replacement has not connected yet. */
  readonly replacing: boolean;

  /** @throws MosaicError `failed_precondition` when this proxy must not serve the attempt */
  admit(row: RunRow, hello: ProxyHello): void;
  /** For a proxy whose start file this daemon has not written. */
  workerSettings?(row: RunRow): WorkerSettings;
  /** A proxy was started for the attempt; not one that replaces another. */
  proxyStarted(process: ProcessRef | undefined, now: number): void;
  /** A proxy has said hello: it is neither gone nor hung, even if it cannot be admitted just now. */
  proxySeen(process: ProcessRef, now: number): void;
  proxyConnected(process: ProcessRef, worker: ProcessRef | undefined): void;
  proxyAbsent(now: number): void;
  whileAbsent(absence: Absence): AbsenceStep;
  /** Starts a proxy that attaches. Undefined when it was gone at once. @throws when none could be started */
  attach(row: RunRow, now: number): ProcessRef | undefined;
  killProxy(): void;

  /** The leader of the worker's process group. */
  worker(): ProcessRef | undefined;
  /** The same, only when it becomes known by this call. */
  newWorker(): ProcessRef | undefined;
  /** @param stopping also the groups that the worker has begun itself, found when this is asked first */
  group(stopping: boolean): WorkerGroup;
  signal(signal: Signal): void;
  /**
   * Ends what has left the worker's group and is still in its cgroup, and gives what the host knows of the end besides the
   * report. `ended` is false while the kernel is at it, or the engine's word is awaited.
   */
  endRest(report: ExitReport | undefined, now: number): Rest;
  /** Removes what the host keeps for the attempt, also of one whose worker was never started. */
  release(): void;
}
