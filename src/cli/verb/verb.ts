/** A verb of the command line, and what its module exports. */
import type { Command } from "commander";
import type { Context } from "../link/context.ts";

export interface VerbModule {
  /**
   * The verb's arguments, help and action. The action puts its exit code into `result`.
   * @param verbs all verbs of the command line, for the completions of shells
   */
  define(
    command: Command,
    context: Context,
    result: { code: number },
    verbs: readonly Verb[],
  ): void;
}

export interface Verb {
  name: string;
  aliases?: readonly string[];
  group: string;
  summary: string;
  /** Of an older word: what is said today. It works as it always has. */
  now?: string;
  /**
   * Loads the verb's module; absent for daemon, up and proxy, which parse their own arguments and
   * are started by src/main.ts.
   */
  load?: () => Promise<VerbModule>;
}
