/** The context of a real command: this process's terminal, streams, variables and clock. */
import { hostEnvironment } from "../os/environment.ts";
import type { Context, Terminal } from "./context.ts";
import { fileOutput } from "./output.ts";

/** Colours: only on a terminal, and not when NO_COLOR is set and not empty (https://no-color.org). */
export function terminalOf(isTty: boolean, env: (name: string) => string | undefined): Terminal {
  let width = Number(env("COLUMNS")) || 80;
  let height = Number(env("LINES")) || 24;
  if (isTty) {
    try {
      // Some terminals report 0.
      const { columns, rows } = Deno.consoleSize();
      if (columns > 0 && rows > 0) [width, height] = [columns, rows];
    } catch {
      // The terminal does not report its size: keep COLUMNS and LINES.
    }
  }
  const color = isTty && !env("NO_COLOR") && env("TERM") !== "dumb";
  return { isTty, width: Math.max(width, 1), height: Math.max(height, 1), color };
}

export function realContext(): Context {
  const env = (name: string) => {
    try {
      return Deno.env.get(name);
    } catch {
      // No permission to read it: treat it as unset.
      return undefined;
    }
  };
  return {
    out: fileOutput(Deno.stdout),
    err: fileOutput(Deno.stderr),
    get terminal() {
      return terminalOf(Deno.stdout.isTerminal(), env);
    },
    takeTerminal: async (onChange) => (await import("./top/terminal.ts")).takeTerminal(onChange),
    errIsTty: Deno.stderr.isTerminal(),
    connect: async (flags) => await (await import("../client/client.ts")).connect(flags),
    readInput: async () => await new Response(Deno.stdin.readable).text(),
    onInterrupt(handler) {
      Deno.addSignalListener("SIGINT", handler);
      return () => Deno.removeSignalListener("SIGINT", handler);
    },
    env,
    variables: () => hostEnvironment(),
    now: () => Date.now(),
  };
}
