/** The whole terminal, taken and given back: alternate screen, raw keyboard, and whatever ends the process in between. */
import { MosaicError } from "../../base/errors.ts";
import { keysOf } from "./keys.ts";

/** A terminal whose screen and keyboard are ours. */
export interface TakenTerminal {
  /** Names of keys (src/cli/top/keys.ts); ends when the terminal is given back or gone. */
  keys: AsyncIterable<string>;
  /** Draws the lines over all that is there; at most as many as the terminal has, none wider. */
  show(lines: readonly string[]): void;
  /** Shell, screen and cursor as they were. More than once does no harm. */
  giveBack(): void;
}

const TAKE = "\x1b[?1049h\x1b[?25l";
const GIVE_BACK = "\x1b[0m\x1b[?25h\x1b[?1049l";
/** A terminal that knows it shows the frame at once, others ignore it. */
const FRAME = ["\x1b[?2026h", "\x1b[?2026l"] as const;

const ENDING = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/**
 * The terminal is given back on every way out but SIGKILL: by the caller, by a signal that ends the process (with 128 and
 * its number), and by an error that nobody catches.
 *
 * @param onChange the window was resized, or the process was stopped and goes on: everything is to be drawn again
 * @throws MosaicError `invalid_argument` when standard input is no terminal
 */
export function takeTerminal(onChange: () => void): TakenTerminal {
  if (!Deno.stdin.isTerminal()) throw noTerminal();
  const encoder = new TextEncoder();
  const write = (text: string) => {
    const bytes = encoder.encode(text);
    for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
  };
  const take = () => {
    Deno.stdin.setRaw(true);
    write(TAKE);
  };
  const reader = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
  let ours = true;
  const giveBack = () => {
    if (!ours) return;
    ours = false;
    removeListeners();
    try {
      Deno.stdin.setRaw(false);
      write(GIVE_BACK);
    } catch {
      // The terminal itself is gone: there is nothing to give back.
    }
  };
  const onContinue = () => {
    take();
    onChange();
  };
  const onResize = () => {
    // The terminal may have wrapped what was there.
    write("\x1b[2J");
    onChange();
  };
  const ending = Object.entries(ENDING).map(([signal, code]) => {
    const handler = () => {
      giveBack();
      Deno.exit(code);
    };
    return [signal as Deno.Signal, handler] as const;
  });
  const listening = [...ending, ["SIGCONT", onContinue] as const, ["SIGWINCH", onResize] as const];
  const removeListeners = () => {
    for (const [signal, handler] of listening) Deno.removeSignalListener(signal, handler);
    removeEventListener("error", giveBack);
    removeEventListener("unhandledrejection", giveBack);
  };

  take();
  for (const [signal, handler] of listening) Deno.addSignalListener(signal, handler);
  addEventListener("error", giveBack);
  addEventListener("unhandledrejection", giveBack);
  return {
    keys: (async function* () {
      for (;;) {
        const { value, done } = await reader.read();
        if (done || !ours) return;
        yield* keysOf(value);
      }
    })(),
    show(lines) {
      if (!ours) return;
      // A line is cleared before it is written: cleared after, one that reaches the margin would lose its last column.
      write(`${FRAME[0]}\x1b[H${lines.map((line) => `\x1b[2K${line}`).join("\r\n")}${FRAME[1]}`);
    },
    giveBack,
  };
}

export function noTerminal(): MosaicError {
  return new MosaicError("invalid_argument", "mosaic top needs a terminal, for its screen and for its keys", {
    hint: `"mosaic list --watch" prints to anything.`,
  });
}
