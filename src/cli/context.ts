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

/** The keyboard of a terminal in raw mode. */
export interface Keyboard {
  /** Names of keys (src/cli/top/keys.ts); ends when it is released or the terminal is gone. */
  keys: AsyncIterable<string>;
  /** Back to lines. */
  release(): void;
}

export interface Context {
  out: Output;
  err: Output;
  /** As it is at the moment: a window may be resized. */
  readonly terminal: Terminal;
  /** Takes the keyboard. */
  keyboard(): Keyboard;
  /** Calls `handler` when the window was resized until the returned function is called. */
  onResize(handler: () => void): () => void;
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

function keyboard(): Keyboard {
  Deno.stdin.setRaw(true);
  const reader = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
  return {
    keys: (async function* () {
      const { keysOf } = await import("./top/keys.ts");
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        yield* keysOf(value);
      }
    })(),
    release: () => Deno.stdin.setRaw(false),
  };
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
    get terminal() {
      return terminalOf(Deno.stdout.isTerminal(), env);
    },
    keyboard,
    onResize(handler) {
      Deno.addSignalListener("SIGWINCH", handler);
      return () => Deno.removeSignalListener("SIGWINCH", handler);
    },
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
