/**
 * Takes over the terminal (alternate screen, raw keyboard) and restores it, however the process
 * ends.
 */
import { MosaicError } from "../../base/errors.ts";
import type { TakenTerminal } from "../link/context.ts";
import { keysOf } from "./keys.ts";

const TAKE = "\x1b[?1049h\x1b[?25l";
const GIVE_BACK = "\x1b[0m\x1b[?25h\x1b[?1049l";
/** Synchronised update: terminals that support it show the frame at once, others ignore it. */
const FRAME = ["\x1b[?2026h", "\x1b[?2026l"] as const;

const ENDING = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Restores the terminal in every case except SIGKILL: by the caller, on a signal that ends the
 * process (exit code 128 plus its number), and on an uncaught error.
 *
 * @param onChange called when everything must be redrawn: the window was resized, or the process
 * was stopped and continued
 * @throws MosaicError `invalid_argument` when standard input is not a terminal
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
      // The terminal is gone: nothing to restore.
    }
  };
  const onContinue = () => {
    take();
    onChange();
  };
  const onResize = () => {
    // The terminal may have wrapped lines.
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
      // Clear each line before writing it: clearing after would erase the last column of a full
      // line.
      write(`${FRAME[0]}\x1b[H${lines.map((line) => `\x1b[2K${line}`).join("\r\n")}${FRAME[1]}`);
    },
    giveBack,
  };
}

export function noTerminal(): MosaicError {
  return new MosaicError(
    "invalid_argument",
    "mosaic top needs a terminal: standard input or output is not one",
    {
      hint: `Use "mosaic list --watch", which needs no terminal.`,
    },
  );
}
