/** The context of a real command: this process's terminal, streams, variables and clock. */
import { MosaicError } from "../base/errors.ts";
import { hostEnvironment } from "../os/processes/environment.ts";
import type { Context, Terminal } from "./link/context.ts";
import { fileOutput } from "./link/output.ts";

/**
 * Colours: only on a terminal, and not when NO_COLOR is set and not empty (https://no-color.org).
 */
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
    connect: async (flags) => await (await import("../wire/client/client.ts")).connect(flags),
    canAsk: Deno.stdin.isTerminal() && Deno.stderr.isTerminal(),
    async ask(question) {
      Deno.stderr.writeSync(new TextEncoder().encode(question));
      // A terminal gives one line at a time.
      const buffer = new Uint8Array(1024);
      const length = await Deno.stdin.read(buffer);
      return length === null
        ? undefined
        : new TextDecoder().decode(buffer.subarray(0, length)).replace(/\r?\n$/, "");
    },
    async runSelf(args) {
      const { argv, env } = (await import("../os/processes/self.ts")).selfCommand();
      return await onTerminal([...argv, ...args], env);
    },
    runHere: (argv) => onTerminal(argv),
    async runScript(script, words, options) {
      const { runProgram } = await import("../os/processes/external_program.ts");
      return await runProgram(["/bin/sh", "-c", script, ...words], { ...options, group: true });
    },
    readInput: async () => await new Response(Deno.stdin.readable).text(),
    inputLines,
    onInterrupt(handler) {
      Deno.addSignalListener("SIGINT", handler);
      return () => Deno.removeSignalListener("SIGINT", handler);
    },
    env,
    variables: () => hostEnvironment(),
    now: () => Date.now(),
  };
}

async function onTerminal(
  argv: readonly string[],
  more: Record<string, string> = {},
): Promise<number> {
  const { underShell } = await import("../os/processes/shell.ts");
  const command = new Deno.Command("/bin/sh", underShell(argv, { ...hostEnvironment(), ...more }));
  return (await command.spawn().status).code;
}

const LONGEST_LINE = 1 << 20;

async function* inputLines(): AsyncGenerator<string> {
  let left = "";
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (left + text).split("\n");
    left = lines.pop()!;
    yield* lines;
    if (left.length > LONGEST_LINE) {
      throw new MosaicError("invalid_argument", "a line of standard input is longer than 1 MiB");
    }
  }
  if (left !== "") yield left;
}
