/** The proxy's exit statuses (docs/reference/proxy.md). */
import type { WorkerExit } from "./exit_record.ts";

/** Statuses that are not its worker's. */
export const PROXY_EXIT = {
  /** The arguments are wrong: no command after `--`, an unknown option, a bad value. */
  usage: 2,
  /** Another proxy holds the attempt's lock. */
  alreadyServed: 3,
  /**
   * The run has ended, is unknown, or is at another attempt: the worker was stopped. Also an
   * internal failure.
   */
  refused: 70,
  /** The worker is gone and left no exit record. */
  lost: 71,
  /** The program exists and cannot be executed (as in a shell). */
  notExecutable: 126,
  /** The program does not exist (as in a shell). */
  noProgram: 127,
} as const;

const SIGNAL_NUMBERS: Record<string, number> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGSYS: 31,
};

/** The status as in a shell: the code, or 128 + the signal's number. */
export function statusOf(exit: WorkerExit): number {
  if (exit.code !== null) return exit.code;
  return 128 + (SIGNAL_NUMBERS[exit.signal] ?? 9);
}
