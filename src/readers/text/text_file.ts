/**
 * A file with what a program prints for people: its standard error, and logs. Lines end with a
 * newline or a carriage return.
 */
import { BaseReader, type Output } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import type { SourceRecord } from "../format/tracker_records.ts";
import type { LineFields, Unread } from "./line_fields.ts";
import { LINES_NOT_READ } from "./not_read.ts";
import { type ProgressState, RunProgress } from "./run_progress.ts";
import { TextLines } from "./text_lines.ts";

const LF = 10;
const CR = 13;
/** Lines for people are not longer; the rest of such a line is skipped. */
const MAX_LINE = 65_536;
/** A longer unfinished table is not waited for. */
const MAX_HELD = 32 << 10;
const decoder = new TextDecoder();
const PROBLEMS: { readonly [why in Unread]: "no_form" | "no_step" } = {
  form: "no_form",
  step: "no_step",
  value: "no_form",
};

export class TextFileReader extends BaseReader {
  readonly format = "text";
  #progress = new RunProgress();
  #text = new TextLines([], this.#progress);
  #skipping = false;

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#skipping = state["skipping"] === true;
    this.#see(state["progress"] as ProgressState | undefined);
  }

  #see(state?: ProgressState): void {
    this.#progress = new RunProgress(state);
    this.#text = new TextLines([], this.#progress);
  }

  protected memory(): Record<string, unknown> {
    const progress = this.#progress.state;
    return {
      ...(this.#skipping ? { skipping: true } : {}),
      ...(Object.keys(progress).length === 0 ? {} : { progress }),
    };
  }

  protected forget(): void {
    this.#skipping = false;
    this.#see();
  }

  /** One line, or all lines of a table: so the reader keeps nothing of them. */
  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    this.#text.pass();
    let from = at;
    do {
      const end = endOfLine(bytes, from);
      if (end < 0 || end - from > MAX_LINE) return this.#unended(bytes, at, from, end, out);
      if (this.#skipping) this.#skipping = false;
      else this.#line(bytes.subarray(from, end), from - at, out);
      from = end + 1;
    } while (this.#text.openLines > 0 && from < bytes.length && from - at < MAX_HELD);
    if (this.#text.openLines > 0 && from - at < MAX_HELD && !out.end) {
      out.need = bytes.length - at + 1;
      return 0;
    }
    return from - at;
  }

  #unended(bytes: Uint8Array, at: number, from: number, end: number, out: Output): number {
    // The lines before it are no table.
    if (from > at && !(this.#text.openLines > 0 && !out.end && bytes.length - at < MAX_HELD)) {
      return from - at;
    }
    if (end < 0 && bytes.length - from <= MAX_LINE) {
      if (out.end && from === at) {
        if (!this.#skipping) this.#line(bytes.subarray(from), from - at, out);
        return bytes.length - at;
      }
      out.need = bytes.length - at + 1;
      return 0;
    }
    this.#skipping = end < 0;
    return (end < 0 ? bytes.length : end + 1) - at;
  }

  #line(bytes: Uint8Array, offset: number, out: Output): void {
    if (bytes.length === 0) return;
    const line = decoder.decode(bytes);
    const fields = this.#text.read(line);
    if (fields !== undefined) out.records.push(...recordsOfFields(fields));
    const part = this.#progress.take();
    if (part !== undefined) out.records.push({ kind: "progress", wallTime: undefined, part });
    const why = this.#text.unread;
    if (why === undefined) return;
    const detail = `${LINES_NOT_READ[why].what}, as in "${
      line.trim().slice(0, 120).toWellFormed()
    }"`;
    out.problems.push({
      what: PROBLEMS[why],
      at: this.position + offset,
      bytes: bytes.length,
      detail,
    });
  }
}

/** Position of the newline or carriage return that ends the line; -1 if there is none yet. */
function endOfLine(bytes: Uint8Array, from: number): number {
  for (let i = from; i < bytes.length; i++) if (bytes[i] === LF || bytes[i] === CR) return i;
  return -1;
}

export function* recordsOfFields(
  { step, wallTime, scalars, episode, trial }: LineFields,
): Generator<SourceRecord> {
  for (const [tag, value] of scalars) yield { kind: "scalar", tag, step, wallTime, value };
  if (episode !== undefined) yield { kind: "episode", step, wallTime, ...episode, extra: {} };
  if (trial !== undefined) yield { kind: "trial", wallTime, trial };
}
