/** What a verb may use of the world; tests hand in their own. */
import type { Api, ConnectionFlags } from "./api.ts";
import { fileOutput, type Output } from "./output.ts";

export interface Terminal {
  /** Standard output is a terminal. */
  isTty: boolean;
  /** Columns; 80 where nobody knows. */
  width: number;
  height: number;
  color: boolean;
}

export interface Context {
  out: Output;
  err: Output;
  terminal: Terminal;
  /** Standard error is a terminal: a live line may be drawn there. */
  errIsTty: boolean;
  /** @throws MosaicError `unavailable` when no daemon is found or answers. */
  connect(flags: ConnectionFlags): Promise<Api>;
  /** All of standard input. */
  readInput(): Promise<string>;
  /** Calls `handler` at each Ctrl-C until the returned function is called. */
  onInterrupt(handler: () => void): () => void;
  env(name: string): string | undefined;
  /** Unix milliseconds. */
  now(): number;
}

/** https://no-color.org: set and not empty switches colours off; they are for terminals only. */
export function terminalOf(isTty: boolean, env: (name: string) => string | undefined): Terminal {
  let width = Number(env("COLUMNS")) || 80;
  let height = Number(env("LINES")) || 24;
  if (isTty) {
    try {
      ({ columns: width, rows: height } = Deno.consoleSize());
    } catch {
      // Standard output is a terminal that does not tell its size.
    }
  }
  const color = isTty && !env("NO_COLOR") && env("TERM") !== "dumb";
  return { isTty, width: Math.max(width, 20), height: Math.max(height, 5), color };
}

export function realContext(): Context {
  const env = (name: string) => {
    try {
      return Deno.env.get(name);
    } catch {
      // Not granted under this permission set: as if it were not set.
      return undefined;
    }
  };
  return {
    out: fileOutput(Deno.stdout),
    err: fileOutput(Deno.stderr),
    terminal: terminalOf(Deno.stdout.isTerminal(), env),
    errIsTty: Deno.stderr.isTerminal(),
    connect: async (flags) => await (await import("../client/client.ts")).connect(flags),
    readInput: async () => await new Response(Deno.stdin.readable).text(),
    onInterrupt(handler) {
      Deno.addSignalListener("SIGINT", handler);
      return () => Deno.removeSignalListener("SIGINT", handler);
    },
    env,
    now: () => Date.now(),
  };
}
