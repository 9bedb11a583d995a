/**
 * Explains a failed run by a reason from a closed vocabulary (docs/reference/operations.md lists
 * it) and a hint for a person. Pure.
 */
import { leftOutHint } from "./left_out_hint.ts";
import { gpuMemoryFrom, hintFromLines, hintFromTraceback } from "./stderr_hints.ts";

/** How a worker ended, as its proxy reports it. */
export interface ExitReport {
  code: number | null;
  /** Such as "SIGKILL"; "" if it ended by itself. */
  signal: string;
  lost: boolean;
  finalPosition: number;
  stderrTail: string[];
  spawnError: string;
  /** Its proxy is sure to have sent no SIGTERM before. */
  byItself?: boolean;
}

export interface Ending {
  /** How the worker ended; undefined if none was ever started. */
  exit: Pick<ExitReport, "code" | "signal" | "lost" | "stderrTail" | "spawnError"> | undefined;
  /**
   * A failure that the daemon decided before the worker ended (a limit, a preflight); null: none.
   */
  faultRequested: string | null;
  /** The text of the attempt's `run_failed` record; undefined if it printed none. */
  runFailed: string | undefined;
  /** The kernel is known to have killed the worker (or a child of it) for lack of memory. */
  oomKilled?: OutOfMemory | undefined;
  /** Why the engine ended the attempt's job (time limit, node failure …), if it did. */
  engineEnd?: { reason: string; text: string } | undefined;
  /** Names of the submitting shell's variables that the run did not get. */
  leftOut?: readonly string[] | undefined;
}

export interface OutOfMemory {
  /** Enforced memory limit in MiB; null: the host's memory was used up. */
  limitMb: number | null;
}

export interface Explanation {
  reason: string;
  hint: string | null;
}

/** Signals that somebody sends: the program's last words are not their cause. */
const KILLS = ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"];

function isKilled({ code, signal }: Pick<ExitReport, "code" | "signal">): boolean {
  return KILLS.includes(signal) || KILLS.includes(SIGNAL_OF_NUMBER[(code ?? 0) - 128] ?? "");
}

/** Texts of workers become part of a reason: one line of this many characters at most. */
const DETAIL_LENGTH = 200;

/** Undefined if nothing failed: the worker ended with 0 and did not report `run_failed`. */
export function explain(ending: Ending): Explanation | undefined {
  const reason = reasonOf(ending);
  return reason === undefined ? undefined : { reason, hint: hintOf(reason, ending) };
}

function reasonOf(
  { exit, faultRequested, runFailed, oomKilled, engineEnd }: Ending,
): string | undefined {
  if (faultRequested !== null) return faultRequested;
  if (engineEnd !== undefined) return engineEnd.reason;
  if (exit === undefined) return "worker_lost";
  // Failed checks on the worker's host.
  if (exit.spawnError.startsWith("preflight: ")) return exit.spawnError;
  if (exit.spawnError !== "") return `spawn_failed: ${oneLine(exit.spawnError)}`;
  if (exit.lost) return "worker_lost";
  if (oomKilled !== undefined && (exit.signal !== "" || exit.code !== 0)) return "oom_killed";
  const gpu = exit.code === 0 || isKilled(exit) ? undefined : gpuMemoryFrom(exit.stderrTail);
  if (gpu !== undefined) {
    return gpu === "" ? "gpu_out_of_memory" : `gpu_out_of_memory: ${oneLine(gpu)}`;
  }
  if (exit.signal !== "") return `signal_${exit.signal}`;
  if (exit.code === null) return "worker_lost";
  if (exit.code !== 0) return `exit_code_${exit.code}`;
  if (runFailed === undefined) return undefined;
  return oneLine(runFailed) === "" ? "run_failed" : `run_failed: ${oneLine(runFailed)}`;
}

function hintOf(
  reason: string,
  { exit, runFailed, oomKilled, leftOut = [] }: Ending,
): string | null {
  if (reason === "oom_killed") return outOfMemory(oomKilled?.limitMb ?? null);
  const decided = HINT_OF_REASON[reason.split(":")[0]!];
  if (decided !== undefined) return decided(reason);
  const lines = [...exit?.stderrTail ?? [], ...(runFailed ?? "").split("\n")];
  const raised = reason.startsWith("signal_")
    ? undefined
    : hintFromTraceback(exit?.stderrTail ?? []);
  const known = hintFromLines(lines) ?? raised ?? hintOfStatus(reason.split(":")[0]!);
  const missing = leftOutHint(lines, leftOut);
  return missing === undefined ? known : [known, missing].filter((hint) => hint !== null).join(" ");
}

function outOfMemory(limitMb: number | null): string {
  const limit = limitMb === null ? "" : `; it may use ${limitMb} MiB (resources.memory_mb)`;
  return `The kernel killed the worker because memory ran out${limit}. Use less (smaller replay buffer, fewer environments), raise resources.memory_mb, or run fewer workers at a time.`;
}

/** Reasons that explain themselves, whatever the worker wrote. */
const HINT_OF_REASON: Record<string, (reason: string) => string | null> = {
  handshake_timeout: () =>
    "The run's proxy did not register in time. Read logs/proxy.log in the run's directory; metadata.handshake_timeout_seconds allows more time.",
  heartbeat_timeout: () =>
    "Neither the worker nor its proxy gave a sign of life in time. Check the run's logs and the load of the host.",
  worker_timeout: () =>
    "The worker gave no sign of life in time. Check the run's logs and the load of the host.",
  stall_timeout: () =>
    "The worker lived but printed nothing for schedule.stall_timeout_seconds. Let it print heartbeats, or allow more time.",
  max_duration: () => "The run reached its own limit, schedule.max_duration_seconds.",
  max_steps: () => "The run reached its own limit, schedule.max_steps.",
  deadline_passed: () => "The run reached its deadline, metadata.queue.deadline.",
  worker_lost: () =>
    "The worker ended without a record of how: the host was restarted, or its wrapper was killed, alone or with the worker. Everything it printed is stored; mosaic retry RUN starts it again.",
  proxy_lost: () =>
    "The run's proxy ended and could not be replaced. Read logs/proxy.log in the run's directory.",
  telemetry_schema: () =>
    "A record did not fit the run's telemetry schema. Mend the worker or the schema, or set metadata.telemetry.strict to false.",
  reset: () => null,
  time_limit: () =>
    "The job reached its time limit at the engine. metadata.slurm.time allows more; with metadata.restart the run continues from its last checkpoint.",
  preempted: () =>
    "The run's place was given to another. A run with metadata.queue.preemptible continues by itself; one at an engine does with metadata.restart.",
  node_fail: () =>
    "The job's node failed. With metadata.restart the run continues from its last checkpoint.",
  out_of_memory: () =>
    "The job used more memory than it had asked for: raise resources.memory_mb, or use less.",
  job_cancelled: () =>
    "Somebody ended the job at the engine (scancel), so no other attempt follows. mosaic retry RUN begins one.",
  job_forgotten: () =>
    "The engine knows nothing of the job any more, and nobody has reported how the worker ended.",
  lease_expired: () =>
    "The job's proxy heard nothing from the daemon for metadata.slurm.lease_seconds and stopped the worker. With metadata.restart the run continues from its last checkpoint.",
  // The text after the colon says what to do.
  preflight: () => null,
  spawn_failed: (reason) => {
    if (/no such program: \S+ is not on the worker's PATH/.test(reason)) {
      return "Give its full path, or put its directory on the PATH in the config's environment; logs/proxy.log in the run's directory shows the PATH that was searched.";
    }
    if (/ENOENT|not found|no such (?:file|program)/i.test(reason)) {
      return "The program is not there. Give its full path, or put its directory on the PATH in the config's environment.";
    }
    if (/EACCES|denied|not executable/i.test(reason)) {
      return "The program is not executable for the daemon's user (chmod +x).";
    }
    return null;
  },
};

const HINT_OF_SIGNAL: Record<string, string> = {
  SIGKILL:
    "Somebody or the kernel killed the worker. If the kernel did so for lack of memory, its log (dmesg, journalctl -k) says so.",
  SIGTERM:
    "Something outside mosaic asked the worker to end (a person, a batch system, a shutdown).",
  SIGINT: "The worker was interrupted.",
  SIGHUP: "The worker's terminal went away.",
  SIGSEGV:
    "Native code crashed. PYTHONFAULTHANDLER=1 in the config's environment makes Python print where.",
  SIGABRT: "Native code gave up (a failed assertion, usually); the last lines of stderr say which.",
  SIGBUS: "A memory-mapped file or shared memory went away; a full /dev/shm is the usual cause.",
  SIGILL: "A program was built for another kind of CPU than this host's.",
  SIGFPE: "Native code divided by zero.",
  SIGXCPU: "A limit on CPU time (ulimit -t) was reached.",
  SIGXFSZ: "A limit on file size (ulimit -f) was reached.",
  SIGPIPE: "The worker wrote to a pipe or socket that nobody reads any more.",
};

const SIGNAL_OF_NUMBER: Record<number, string> = {
  1: "SIGHUP",
  2: "SIGINT",
  4: "SIGILL",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  15: "SIGTERM",
  24: "SIGXCPU",
  25: "SIGXFSZ",
};

function hintOfStatus(reason: string): string | null {
  if (reason.startsWith("signal_")) return HINT_OF_SIGNAL[reason.slice("signal_".length)] ?? null;
  const code = Number(/^exit_code_(\d+)$/.exec(reason)?.[1] ?? Number.NaN);
  if (code === 126) return "126 is the shell's word for a command that is not executable.";
  if (code === 127) return "127 is the shell's word for a command that is not there.";
  // A shell exits with 128 + N when its program died of signal N: the worker may have such a shell,
  // and the wrapper is one.
  const signal = SIGNAL_OF_NUMBER[code - 128];
  return signal === undefined
    ? null
    : `${code} is the program's own code, or 128 + ${code - 128}: ${signal}. ${
      HINT_OF_SIGNAL[signal] ?? ""
    }`.trim();
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- a worker's text must not control the reader's terminal.
  const clean = text.replace(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
  return clean.length > DETAIL_LENGTH ? `${clean.slice(0, DETAIL_LENGTH - 1)}…` : clean;
}
