/** How a proxy leaves when it does not leave with its worker's code (docs/proxy.md). */
export const PROXY_EXIT = {
  /** The arguments are wrong: no command after `--`, an unknown option, a bad value. */
  usage: 2,
  /** Another proxy holds the attempt's lock. */
  alreadyServed: 3,
  /** The run has ended, is unknown, or is another attempt by now: the worker was stopped. Also an internal failure. */
  refused: 70,
  /** The worker is gone and left no exit record. */
  lost: 71,
  /** The program exists and cannot be executed (as shells have it). */
  notExecutable: 126,
  /** The program does not exist (as shells have it). */
  noProgram: 127,
} as const;
