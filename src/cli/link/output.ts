/** A verb's outputs: data on stdout, messages on stderr. */
import { TerminalFilter } from "../../base/text/terminal_text.ts";

/**
 * Thrown when the reader of stdout has gone (`| head`): the verb ends with exit code 0 and no
 * message.
 */
export class ReaderGone extends Error {
  override readonly name = "ReaderGone";
}

/** Cursor movements. */
export type Move =
  /** To the upper left corner; clears the screen. */
  | "screen"
  /** To the beginning of the line; clears it. */
  | "line"
  /** Up by this many lines. */
  | { up: number };

export interface Output {
  /**
   * Writes text as it is, without adding a newline. On a terminal, all control sequences except
   * colours are escaped.
   */
  write(text: string): void;
  /**
   * Writes bytes of a program unchanged; to a terminal, as `write` does, but a carriage return
   * redraws its line.
   */
  writeBytes(bytes: Uint8Array): void;
  /** Moves the cursor of a terminal; `write` escapes such sequences. */
  move(move: Move): void;
}

export function moveSequence(move: Move): string {
  if (move === "screen") return "\x1b[H\x1b[J";
  return move === "line" ? "\r\x1b[K" : `\x1b[${move.up}A`;
}

const encoder = new TextEncoder();

/** Writes synchronously: the kernel's pipe is the only queue, so a slow reader slows the writer. */
export function fileOutput(
  file: { writeSync(p: Uint8Array): number; isTerminal(): boolean },
): Output {
  const raw = (bytes: Uint8Array) => {
    try {
      for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) throw new ReaderGone();
      throw error;
    }
  };
  const move = (to: Move) => raw(encoder.encode(moveSequence(to)));
  if (!file.isTerminal()) {
    return { write: (text) => raw(encoder.encode(text)), writeBytes: raw, move };
  }
  const [filter, ofPrograms] = [new TerminalFilter(), new TerminalFilter(true)];
  const decoder = new TextDecoder();
  const write = (text: string) => raw(encoder.encode(filter.pass(text)));
  const writeBytes = (bytes: Uint8Array) =>
    raw(encoder.encode(ofPrograms.pass(decoder.decode(bytes, { stream: true }))));
  return { write, writeBytes, move };
}
