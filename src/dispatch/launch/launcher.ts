/**
 * An engine that places jobs on nodes: what mosaic asks of one. Slurm implements it (slurm/slurm.ts), and a scripted engine of
 * the tests; both pass tests/dispatch/launch/conformance.ts. docs/launchers.md says what an implementation must promise.
 *
 * The engine is asked, the proxy is believed: what an engine says of a job is a hint until the job's proxy has reported, or
 * until the engine vouches that no process of the job is left.
 */
import type { RunPlan } from "../../config/plan.ts";
import type { RunFiles } from "../../base/layout.ts";

/** A job to be placed. */
export interface Order {
  /** Of this job alone, for ever: the engine's ids are given out again. */
  name: string;
  /** For people who read the engine's queue. */
  comment: string;
  plan: RunPlan;
  files: RunFiles;
  attempt: number;
  /** Where the nodes share no disk with this host: what the job makes on its node before the proxy is started. */
  node?: NodeFiles | undefined;
  /** What runs on the first node: a proxy. */
  argv: readonly string[];
  /** The variables it needs there; none of them is secret. */
  env: Readonly<Record<string, string>>;
}

export interface NodeFiles {
  /** The run's, absolute. */
  directory: string;
  /** Absolute, in the order in which they are made, mode 0700. */
  directories: string[];
  /** Absolute path and text, mode 0600. */
  files: Record<string, string>;
}

export type Launched =
  | { t: "placed"; job: string }
  /** It would be rejected again. `why` is the engine's own text. */
  | { t: "rejected"; why: string }
  /** The engine answers, and has not taken this job as far as one knows; it may later. `why` is its own text. */
  | { t: "not_taken"; why: string }
  /** Whether the job exists is unknown: ask again by the name. */
  | { t: "no_answer"; why: string };

/** Why an engine has ended a job, in one vocabulary for all engines; docs/operations.md lists those that become reasons. */
export type EndKind =
  /** The job's program has ended by itself; how is the proxy's to say. */
  | "finished"
  | "time_limit"
  | "preempted"
  | "node_fail"
  | "out_of_memory"
  /** Somebody cancelled the job at the engine. */
  | "job_cancelled"
  /** The engine knows nothing of a job that it had. */
  | "job_forgotten";

export interface JobEnd {
  kind: EndKind;
  /** No process of the job is left. False where the node does not answer: they may run on. */
  proven: boolean;
  /** The engine's own words. */
  said: string;
}

/** One job as the engine tells it. */
export interface Sighting {
  job: string;
  name: string;
  /** By the engine's clock, Unix milliseconds. */
  submittedAt: number;
  nodes: string[];
  state:
    | { t: "queued"; reason: string; expectedStart: number | null }
    | { t: "running" }
    | { t: "ended"; end: JobEnd };
}

/** "no_answer" is an answer of its own and never an end. */
export type Observation =
  | { t: "answer"; jobs: readonly Sighting[] }
  | { t: "no_answer"; why: string };

/** Which job is meant: by its name, and its id where that is known. */
export interface JobRef {
  name: string;
  job: string | null;
}

export interface Launcher {
  /** As in `metadata.launcher`. */
  readonly name: string;
  /** Why a run of this plan can never be placed here; undefined: it can. */
  admit(plan: RunPlan): string | undefined;
  /** Directory on nodes that share no disk with this host; undefined where they do. */
  nodeDirectory?(plan: RunPlan): string | undefined;
  /** Idempotent by `order.name`: a job that is there already is not submitted again. */
  launch(order: Order): Promise<Launched>;
  /** One query for all jobs of this launcher, ended ones for as long as the engine knows them. */
  observe(): Promise<Observation>;
  /** The jobs of this name. */
  find(name: string): Promise<Observation>;
  /** Ended jobs of this name that only the engine's accounting still knows; absent where it keeps none. */
  remembered?(name: string): Promise<Observation>;
  /**
   * Ends a job; of one that has ended, nothing. Whether it has ended is observed.
   * @param how graceful: its processes get SIGTERM, and SIGKILL after the engine's own grace period
   */
  stop(job: JobRef, how: "graceful" | "now"): Promise<void>;
  /** For people: "Slurm job 17 on n1". */
  describe(job: JobRef & { nodes: readonly string[] }): string;
}
