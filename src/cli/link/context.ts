/** Everything outside the process that a verb uses. Tests pass a fake. */
import type { ConnectionFlags, DaemonApi } from "../../wire/client/daemon_api.ts";
import type { ProgramOutput } from "../../os/processes/external_program.ts";
import type { Output } from "./output.ts";

export interface Terminal {
  /** Standard output is a terminal. */
  isTty: boolean;
  /** Columns; 80 if unknown. */
  width: number;
  height: number;
  color: boolean;
}

/** A terminal whose screen and keyboard this process controls. */
export interface TakenTerminal {
  /** Names of keys (src/cli/top/keys.ts); ends when the terminal is restored or gone. */
  keys: AsyncIterable<string>;
  /** Replaces the screen's content. At most as many lines as the terminal has, none wider. */
  show(lines: readonly string[]): void;
  /** Restores screen, keyboard mode and cursor. Idempotent. */
  giveBack(): void;
}

export interface Context {
  out: Output;
  err: Output;
  /** Current values: the window may be resized. */
  readonly terminal: Terminal;
  /**
   * Takes over the whole terminal (src/cli/top/terminal.ts). @throws when standard input is not a
   * terminal
   */
  takeTerminal(onChange: () => void): Promise<TakenTerminal>;
  /** Standard error is a terminal, so a status line can be redrawn there. */
  errIsTty: boolean;
  /** @throws MosaicError `unavailable` when no daemon is found or none answers */
  connect(flags: ConnectionFlags): Promise<DaemonApi>;
  /** Standard input and error are terminals: there is somebody to ask. */
  canAsk: boolean;
  /** One line of the answer, without its end; undefined if the input ends. */
  ask(question: string): Promise<string | undefined>;
  /** Runs another command of mosaic on the same terminal. @returns its exit code */
  runSelf(args: readonly string[]): Promise<number>;
  /** Runs a program on the same terminal. @returns its exit code; 127: there is no such program */
  runHere(argv: readonly string[]): Promise<number>;
  /**
   * The output of `/bin/sh -c SCRIPT WORDS…` in a directory, with this environment only. @throws if
   * it takes too long
   */
  runScript(
    script: string,
    words: readonly string[],
    options: { env: Record<string, string>; cwd: string; limitMs: number },
  ): Promise<ProgramOutput>;
  /** All of standard input. */
  readInput(): Promise<string>;
  /** The lines of standard input as they come, each of a bounded length. */
  inputLines(): AsyncIterable<string>;
  /** Calls `handler` at each Ctrl-C until the returned function is called. */
  onInterrupt(handler: () => void): () => void;
  env(name: string): string | undefined;
  /** All variables of the environment that may be read. */
  variables(): Readonly<Record<string, string>>;
  /** Unix milliseconds. */
  now(): number;
}
