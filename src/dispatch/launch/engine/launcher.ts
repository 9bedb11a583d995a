/**
 * The interface of an engine that places jobs on nodes. Slurm implements it (slurm/slurm.ts), and a
 * scripted engine in tests; both pass tests/dispatch/launch/conformance.ts.
 * docs/reference/launchers.md lists what an implementation must promise. The proxy is believed
 * before the engine: what an engine says of a job is only a hint until the job's proxy has
 * reported, or until the engine knows that no process of the job is left.
 */
import type { RunPlan } from "../../../config/plan.ts";
import type { RunFiles } from "../../../base/layout.ts";

/** A job to be placed. */
export interface Order {
  /** Unique for ever, because engines use ids again. */
  name: string;
  /** For people who read the engine's queue. */
  comment: string;
  plan: RunPlan;
  files: RunFiles;
  attempt: number;
  /**
   * What the job creates on its node before it starts the proxy, if the nodes share no disk with
   * this host.
   */
  node?: NodeFiles | undefined;
  /** The command on the first node: a proxy. */
  argv: readonly string[];
  /** The variables that it needs; none is secret. */
  env: Readonly<Record<string, string>>;
}

export interface NodeFiles {
  /** The run's directory, absolute. */
  directory: string;
  /** Absolute paths in the order of creation, mode 0700. */
  directories: string[];
  /** Absolute path and text, mode 0600. */
  files: Record<string, string>;
}

export type Launched =
  | { t: "placed"; job: string }
  /** The engine would reject it again. `why` is the engine's own text. */
  | { t: "rejected"; why: string }
  /**
   * The engine answers and, as far as is known, has not accepted this job; it may later. `why` is
   * its own text.
   */
  | { t: "not_taken"; why: string }
  /** Whether the job exists is unknown: `find` it by its name. */
  | { t: "no_answer"; why: string };

/**
 * Why an engine has ended a job, the same words for all engines; docs/reference/operations.md lists
 * those that become reasons.
 */
export type EndKind =
  /** The job's program has ended by itself; the proxy reports how. */
  | "finished"
  | "time_limit"
  | "preempted"
  | "node_fail"
  | "out_of_memory"
  /** Somebody cancelled the job in the engine. */
  | "job_cancelled"
  /** The engine no longer knows the job. */
  | "job_forgotten";

export interface JobEnd {
  kind: EndKind;
  /** No process of the job is left. False if the node does not answer: they may still run. */
  proven: boolean;
  /**
   * Not proven only because the node answers again since a moment: its engine may still be ending
   * them.
   */
  recent?: boolean;
  /** The engine's own text. */
  text: string;
}

/** One job, as listed by the engine. */
export interface Sighting {
  job: string;
  name: string;
  /** By the engine's clock, Unix milliseconds. */
  submittedAt: number;
  nodes: string[];
  state:
    | { t: "queued"; reason: string; expectedStart: number | null }
    /**
     * @property held why its processes may stand still, for people: what they do not say is no
     * silence
     */
    | { t: "running"; held?: string | undefined }
    | { t: "ended"; end: JobEnd };
}

/** "no_answer" says nothing about any job. */
export type Observation =
  | { t: "answer"; jobs: readonly Sighting[] }
  | { t: "no_answer"; why: string };

/** A job by its name, and by its id if that is known. */
export interface JobRef {
  name: string;
  job: string | null;
}

export interface Launcher {
  /** As in `metadata.launcher`. */
  readonly name: string;
  /** Why a run of this plan can never be placed here; undefined: it can be placed. */
  admit(plan: RunPlan): string | undefined;
  /** Directory on nodes that share no disk with this host; undefined if they share one. */
  nodeDirectory?(plan: RunPlan): string | undefined;
  /** Idempotent by `order.name`: an existing job is not submitted again. */
  launch(order: Order): Promise<Launched>;
  /**
   * One query for all jobs of this launcher, including ended ones as long as the engine lists them.
   */
  observe(): Promise<Observation>;
  /** The jobs of this name. */
  find(name: string): Promise<Observation>;
  /**
   * Ended jobs of this name that only the engine's accounting still knows; absent if it has none.
   */
  remembered?(name: string): Promise<Observation>;
  /**
   * Ends a job; does nothing if it has ended. The end is observed later.
   * @param how graceful: its processes get SIGTERM, and SIGKILL after the engine's own grace period
   */
  stop(job: JobRef, how: "graceful" | "now"): Promise<void>;
  /** Gives up all calls, at once and for good; what they have done is found by the jobs' names. */
  close?(): void;
  /** For people: "Slurm job 17 on n1". */
  describe(job: JobRef & { nodes: readonly string[] }): string;
}
