/** The two outputs of a verb: data on stdout, messages on stderr. */
import { TerminalFilter } from "../base/terminal_text.ts";

/** Thrown when the reader of stdout is gone (`| head`): the verb ends, quietly and well. */
export class ReaderGone extends Error {
  override readonly name = "ReaderGone";
}

/** What mosaic itself does with a terminal's cursor. */
export type Move =
  /** To the upper left corner of an empty screen. */
  | "screen"
  /** To the beginning of the line, which is emptied. */
  | "line"
  /** Up by so many lines. */
  | { up: number };

export interface Output {
  /** Text; newlines are the caller's. A terminal obeys nothing in it but colours, whoever wrote it. */
  write(text: string): void;
  /** Bytes as they are; to a terminal, the text that they are, as `write` gives it. */
  writeBytes(bytes: Uint8Array): void;
  /** For terminals only: `write` lets nobody move the cursor. */
  move(move: Move): void;
}

export function moveSequence(move: Move): string {
  if (move === "screen") return "\x1b[H\x1b[J";
  return move === "line" ? "\r\x1b[K" : `\x1b[${move.up}A`;
}

const encoder = new TextEncoder();

/** All of it is written before it returns: the kernel's pipe is the only queue, so a slow reader slows the writer. */
export function fileOutput(file: { writeSync(p: Uint8Array): number; isTerminal(): boolean }): Output {
  const raw = (bytes: Uint8Array) => {
    try {
      for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) throw new ReaderGone();
      throw error;
    }
  };
  const move = (to: Move) => raw(encoder.encode(moveSequence(to)));
  if (!file.isTerminal()) return { write: (text) => raw(encoder.encode(text)), writeBytes: raw, move };
  const filter = new TerminalFilter();
  const decoder = new TextDecoder();
  const write = (text: string) => raw(encoder.encode(filter.pass(text)));
  return { write, writeBytes: (bytes) => write(decoder.decode(bytes, { stream: true })), move };
}
