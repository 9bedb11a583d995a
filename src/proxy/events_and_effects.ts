/**
 * What happens to a proxy (events) and what it does about it (effects). `next` in state.ts maps one to the other; the loop in
 * run_proxy.ts performs effects and puts what comes of them back as events.
 */
import type { ErrorCode } from "../base/errors.ts";
import type { ProcessRef } from "../os/identity.ts";
import type { WorkerExit } from "./exit_record.ts";

/**
 * What is delivered: records of the journal, those of all observed files together (sources/file_sources.ts), and files
 * themselves (uploads.ts).
 */
export type SourceId = "stdout" | "files" | "uploads";

export interface Control {
  paused: boolean;
  /** Steps a second; 0 is unlimited. */
  maxRateHz: number;
}

/** What people and policy want of the worker. */
export interface DesiredControl extends Control {
  /** The daemon tells the worker, too, on a ControlStream of the worker's own. */
  workerHears: boolean;
}

/** Why the proxy holds a worker that nobody wants to be paused. */
export type Hold = "backlog" | "disk" | "store";

/** What is in force. */
export interface AppliedControl extends Control {
  /** "backlog", "disk" or "store" (the daemon's is full) while the proxy holds the worker of its own accord. */
  selfPaused: string;
}

/** How a worker is paused: it was asked and has answered, or its group is stopped; "": neither. */
export type PausedBy = "message" | "signal" | "";

/** What the next proxy of this worker has to know, whenever this one ends. */
export interface ControlRecord extends Control {
  /** Of a worker that is to continue, "message" means that it has not confirmed that it does. */
  pausedBy: PausedBy;
}

/** What a worker that reads control messages is asked for. */
export type WorkerRequest = "pause" | "resume" | "checkpoint";

/** How the worker ended; `exit` is undefined when it is lost (gone without a record). */
export interface WorkerEnd {
  exit: WorkerExit | undefined;
  stderrTail: string[];
}

/** Why a connection ended. */
export interface Failure {
  /** undefined where it is no answer of a daemon: a broken socket, a timeout, a file that cannot be read. */
  code: ErrorCode | undefined;
  message: string;
  /** The address is the one that daemon.json announces, or there is no daemon.json. */
  announced: boolean;
}

/** Why a proxy leaves. */
export type Result =
  /** Everything and the exit is acknowledged. */
  | { type: "done" }
  /** The daemon accepts nothing more of this attempt. */
  | { type: "refused"; reason: string }
  /** After a signal to the proxy: what is not delivered is left to another one. */
  | { type: "given_up" };

export type Event =
  | { tag: "started" }
  /** `inherited` where an earlier proxy has started it: what that one left in force. */
  | { tag: "worker_started"; leader: ProcessRef | undefined; inherited: ControlRecord | undefined }
  | { tag: "worker_exited"; end: WorkerEnd }
  /** After `end_group`: nothing of the worker's group lives, or it cannot be ended. */
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
  /** A read found nothing; with `final` there will be nothing more. */
  | { tag: "caught_up"; source: SourceId; final: boolean }
  | { tag: "connected" }
  | {
    tag: "welcomed";
    target: string;
    positions: Readonly<Record<SourceId, number>>;
    /** 0: the default. */
    windowBytes: number;
    control: DesiredControl | undefined;
    /** The daemon wants the files of the run's directory. */
    uploads: boolean;
    /** For a worker that is not started yet and has no start file. */
    worker?: WorkerSettings | undefined;
  }
  /** `windowBytes` 0: as it was. */
  | { tag: "acknowledged"; source: SourceId; position: number; windowBytes: number; storeFull?: boolean }
  | { tag: "control"; desired: DesiredControl }
  | { tag: "stop_requested"; graceS: number }
  | { tag: "exit_acknowledged" }
  /** It only shows that it is there. */
  | { tag: "heartbeat_answered" }
  | { tag: "disconnected"; failure: Failure }
  /** A daemon has written its daemon.json anew: it can be reached. */
  | { tag: "daemon_announced" }
  | { tag: "backlog_measured"; bytes: number; limit: number }
  | { tag: "free_space_measured"; enough: boolean; text: string }
  /** The engine's time limit is near. */
  | { tag: "limit_near" }
  /** SIGTERM, SIGINT or SIGQUIT to the proxy. */
  | { tag: "signal" }
  /** A time that `dueAt` names has come, or nearly. */
  | { tag: "tick" };

/** What the run's config and its attempt bring to a worker. */
export interface WorkerSettings {
  environment: Record<string, string>;
  /** The checkpoint to begin from; "" where there is none. */
  resumeFrom: string;
  /** It is on the daemon's disk only, and `resumeFrom` a path in the run's directory. */
  fetch: boolean;
}

/** What a proxy says to the daemon, batches aside. */
export type Message =
  | { case: "hello"; leader: ProcessRef | undefined; startsWorker: boolean }
  | { case: "worker_started"; leader: ProcessRef }
  | { case: "heartbeat" }
  | { case: "control"; applied: AppliedControl }
  | { case: "exit"; end: WorkerEnd; finalPosition: number };

export type Effect =
  /** `settings`: the daemon's, for a worker whose start file no daemon has written. */
  | { tag: "start_worker"; settings?: WorkerSettings | undefined }
  /** `outside`: also to what has left the group; finding it takes time. */
  | { tag: "signal_group"; signal: "SIGSTOP" | "SIGCONT"; outside: boolean }
  /** SIGTERM, then SIGKILL after the grace period; a second one may only shorten that. */
  | { tag: "end_group"; graceS: number }
  | { tag: "ask_worker"; control: WorkerRequest }
  /** For the daemon, which finds it on the shared disk: why the worker was stopped. */
  | { tag: "record_lease_end" }
  | { tag: "set_rate"; maxRateHz: number }
  /** For the rate: so many steps stood in so many bytes. */
  | { tag: "count_steps"; steps: number; bytes: number }
  | { tag: "write_record"; record: ControlRecord }
  | { tag: "connect" }
  | { tag: "close" }
  /** The connection failed: another daemon may be announced before it is time to connect again. */
  | { tag: "await_daemon"; error: string; tries: number }
  | { tag: "send"; message: Message }
  | { tag: "seek"; source: SourceId; position: number }
  /** Sends the next batch of at most `most` bytes; `final`: text after the last newline is a line, too. */
  | { tag: "read"; source: SourceId; most: number; final: boolean }
  /** Growth of the source is reported from now on, or no more. */
  | { tag: "arm_growth"; source: SourceId }
  | { tag: "disarm_growth"; source: SourceId }
  | { tag: "log"; level: "info" | "warn" | "error"; message: string; fields?: Record<string, unknown> }
  | { tag: "leave"; code: number; result: Result };

/** Where a transition puts its effects, in the order in which they are to be performed. */
export type Effects = Effect[];
