/**
 * The proxy's events and effects. `next` in state.ts maps an event to effects; the loop in
 * run_proxy.ts performs them and puts their results back as events.
 */
import type { ErrorCode } from "../../base/errors.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import type { WorkerExit } from "./exit_record.ts";

/**
 * Sources: records of the journal, records of all observed files together
 * (sources/file_sources.ts), and uploaded files (uploads.ts).
 */
export type SourceId = "stdout" | "files" | "uploads";

export interface Control {
  paused: boolean;
  /** Steps a second; 0 is unlimited. */
  maxRateHz: number;
}

/** What people and policies ask of the worker. */
export interface DesiredControl extends Control {
  /** The daemon also tells the worker, on a ControlStream of the worker's own. */
  workerHears: boolean;
}

/** Why the proxy holds a worker that is not paused. */
export type Hold = "backlog" | "disk" | "store";

/** The control that is applied. */
export interface AppliedControl extends Control {
  /**
   * "backlog", "disk" or "store" (the daemon's disk is full) while the proxy itself holds the
   * worker.
   */
  selfPaused: string;
}

/** How a worker is paused: it was asked and has confirmed, or its group is stopped; "": neither. */
export type PausedBy = "message" | "signal" | "";

/** What the next proxy of this worker must know, whenever this one ends. */
export interface ControlRecord extends Control {
  /** For a worker that is to continue, "message" means that it has not confirmed that yet. */
  pausedBy: PausedBy;
}

/** Requests to a worker that reads control messages. */
export type WorkerRequest = "pause" | "resume" | "checkpoint";

/** How the worker ended; `exit` is undefined when it is lost (gone without a record). */
export interface WorkerEnd {
  exit: WorkerExit | undefined;
  stderrTail: string[];
  /** This proxy has started it, and had not begun to end its group. */
  byItself?: boolean;
}

/** Why a connection ended. */
export interface Failure {
  /** undefined if it is no answer of a daemon: a broken socket, a timeout, an unreadable file. */
  code: ErrorCode | undefined;
  message: string;
  /** The address is that of daemon.json, or there is no daemon.json. */
  announced: boolean;
  /**
   * What is to be sent could not be read. The daemon is well, and will welcome the next connection.
   */
  unreadable?: true;
}

/** Why a proxy exits. */
export type Result =
  /** Everything and the exit is acknowledged. */
  | { type: "done" }
  /** The daemon refuses this attempt for good. */
  | { type: "refused"; reason: string }
  /** After a signal to the proxy: another proxy delivers the rest. */
  | { type: "given_up" };

export type Event =
  | { tag: "started" }
  /** `inherited`, if an earlier proxy has started it: the control that it left applied. */
  | { tag: "worker_started"; leader: ProcessRef | undefined; inherited: ControlRecord | undefined }
  /** `rest`: processes of its group are left, which may still print. */
  | { tag: "worker_exited"; end: WorkerEnd; rest?: boolean }
  /** After `end_group`: no process of the worker's group is left, or it cannot be ended. */
  | { tag: "group_ended" }
  | { tag: "group_not_signalled" }
  /** The off or on part of the rate limit's duty cycle begins. */
  | { tag: "throttled"; off: boolean }
  | { tag: "journal_grew"; source: SourceId }
  | {
    tag: "batch_sent";
    source: SourceId;
    to: number;
    lines: number;
    bytes: number;
    steps: number;
    /** Kinds of the lifecycle records in it. */
    eventKinds: string[];
  }
  /** A read has found nothing; with `final` nothing more will come. */
  | { tag: "caught_up"; source: SourceId; final: boolean }
  | { tag: "connected" }
  | {
    tag: "welcomed";
    target: string;
    positions: Readonly<Record<SourceId, number>>;
    /** 0: the default. */
    windowBytes: number;
    control: DesiredControl | undefined;
    /** The daemon asks for the files of the run's directory. */
    uploads: boolean;
    /** For a worker that is not started yet and has no start file. */
    worker?: WorkerSettings | undefined;
  }
  /** `windowBytes` 0: unchanged. */
  | {
    tag: "acknowledged";
    source: SourceId;
    position: number;
    windowBytes: number;
    storeFull?: boolean;
  }
  | { tag: "control"; desired: DesiredControl }
  | { tag: "stop_requested"; graceS: number }
  /** The daemon wants the worker to save a checkpoint. */
  | { tag: "checkpoint_requested" }
  | { tag: "exit_acknowledged" }
  /** Only shows that the daemon is alive. */
  | { tag: "heartbeat_answered" }
  | { tag: "disconnected"; failure: Failure }
  /** A daemon has written its daemon.json again: it can be reached. */
  | { tag: "daemon_announced" }
  | { tag: "backlog_measured"; bytes: number; limit: number }
  | { tag: "free_space_measured"; enough: boolean; text: string }
  /** The engine's time limit will be reached soon. */
  | { tag: "limit_near" }
  /** SIGTERM, SIGINT or SIGQUIT to the proxy. */
  | { tag: "signal" }
  /** A time given by `dueAt` is reached, or nearly. */
  | { tag: "tick" };

/** Settings of the run's config and its attempt for a worker. */
export interface WorkerSettings {
  environment: Record<string, string>;
  /** The checkpoint to resume from; "": none. */
  resumeFrom: string;
  /**
   * The checkpoint is on the daemon's disk only, and `resumeFrom` a path in the run's directory.
   */
  fetch: boolean;
}

/** Messages of a proxy to the daemon, except batches. */
export type Message =
  | { case: "hello"; leader: ProcessRef | undefined; startsWorker: boolean }
  | { case: "worker_started"; leader: ProcessRef }
  | { case: "heartbeat" }
  | { case: "control"; applied: AppliedControl }
  | { case: "exit"; end: WorkerEnd; finalPosition: number };

export type Effect =
  /** `settings`: from the daemon, for a worker without a start file. */
  | { tag: "start_worker"; settings?: WorkerSettings | undefined }
  /** `outside`: also processes that have left the group; finding them takes time. */
  | { tag: "signal_group"; signal: "SIGSTOP" | "SIGCONT"; outside: boolean }
  /** SIGTERM, then SIGKILL after the grace period; a second request may only shorten it. */
  | { tag: "end_group"; graceS: number }
  | { tag: "ask_worker"; control: WorkerRequest }
  /** Records on the shared disk, for the daemon, why the worker was stopped. */
  | { tag: "record_lease_end" }
  | { tag: "set_rate"; maxRateHz: number }
  /** For the rate: `bytes` of the journal contained so many `steps`. */
  | { tag: "count_steps"; steps: number; bytes: number }
  | { tag: "write_record"; record: ControlRecord }
  | { tag: "connect" }
  | { tag: "close" }
  /** The connection failed: before the next try, watch for a newly announced daemon. */
  | { tag: "await_daemon"; error: string; tries: number }
  | { tag: "send"; message: Message }
  | { tag: "seek"; source: SourceId; position: number }
  /**
   * Sends the next batch of at most `most` bytes. `final`: text after the last newline is a line,
   * too.
   */
  | { tag: "read"; source: SourceId; most: number; final: boolean }
  /** Report growth of the source from now on, or stop reporting it. */
  | { tag: "arm_growth"; source: SourceId }
  | { tag: "disarm_growth"; source: SourceId }
  | {
    tag: "log";
    level: "info" | "warn" | "error";
    message: string;
    fields?: Record<string, unknown>;
  }
  | { tag: "leave"; code: number; result: Result };

/** Collects the effects of a transition, in the order in which they are to be performed. */
export type Effects = Effect[];
