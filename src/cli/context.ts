/** Everything outside the process that a verb uses. Tests pass a fake. */
import type { ConnectionFlags, DaemonApi } from "./daemon_api.ts";
import { hostEnvironment } from "../os/environment.ts";
import { fileOutput, type Output } from "./output.ts";
import type { TakenTerminal } from "./top/terminal.ts";

export interface Terminal {
  /** Standard output is a terminal. */
  isTty: boolean;
  /** Columns; 80 if unknown. */
  width: number;
  height: number;
  color: boolean;
}

export interface Context {
  out: Output;
  err: Output;
  /** Current values: the window may be resized. */
  readonly terminal: Terminal;
  /** Takes over the whole terminal (src/cli/top/terminal.ts). @throws when standard input is not a terminal */
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
  /** All of standard input. */
  readInput(): Promise<string>;
  /** Calls `handler` at each Ctrl-C until the returned function is called. */
  onInterrupt(handler: () => void): () => void;
  env(name: string): string | undefined;
  /** All variables of the environment that may be read. */
  variables(): Readonly<Record<string, string>>;
  /** Unix milliseconds. */
  now(): number;
}

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
    canAsk: Deno.stdin.isTerminal() && Deno.stderr.isTerminal(),
    async ask(question) {
      Deno.stderr.writeSync(new TextEncoder().encode(question));
      // A terminal gives one line at a time.
      const buffer = new Uint8Array(1024);
      const length = await Deno.stdin.read(buffer);
      return length === null ? undefined : new TextDecoder().decode(buffer.subarray(0, length)).replace(/\r?\n$/, "");
    },
    async runSelf(args) {
      const [{ selfCommand }, { underShell }] = await Promise.all([import("../os/self.ts"), import("../os/shell.ts")]);
      const { argv, env } = selfCommand();
      const command = new Deno.Command("/bin/sh", underShell([...argv, ...args], { ...hostEnvironment(), ...env }));
      return (await command.spawn().status).code;
    },
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
