/**
 * Every verb with its one-line summary. The verbs themselves are loaded when they are called: start-up time is mostly
 * imports, and `mosaic --help` needs none of them.
 */
import type { Command } from "commander";
import type { Context } from "./context.ts";

export interface VerbModule {
  /** The verb's arguments, help and action. The action puts its exit code into `result`. */
  define(command: Command, context: Context, result: { code: number }): void;
}

export interface Verb {
  name: string;
  aliases?: readonly string[];
  group: string;
  summary: string;
  /** Loads the verb's module; absent for the parts that parse their own arguments (daemon, proxy). */
  load?: () => Promise<VerbModule>;
  run?: (args: string[]) => Promise<number>;
}

export const GROUPS = ["Runs", "Telemetry", "Control", "Host", "Parts"] as const;

export const VERBS: readonly Verb[] = [
  {
    name: "demo-worker",
    group: "Parts",
    summary: "the demo's worker: learns CartPole and prints telemetry",
    load: () => import("./verbs/demo_worker.ts"),
  },
  {
    name: "daemon",
    group: "Parts",
    summary: "run the daemon: registry, dispatch, telemetry, status page",
    run: async (args) => await (await import("../daemon.ts")).runDaemon(args),
  },
  {
    name: "proxy",
    group: "Parts",
    summary: "run a worker under a sidecar that reports to a daemon",
    run: async (args) => await (await import("../proxy.ts")).runProxy(args),
  },
];

export function findVerb(name: string): Verb | undefined {
  return VERBS.find((v) => v.name === name || v.aliases?.includes(name));
}
