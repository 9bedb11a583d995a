/**
 * Reads a worker's standard output, which is a file: the journal. Every position can be read again
 * at any time, so memory holds only the chunk that is being parsed.
 */

import { Lines } from "../readers/lines/lines.ts";
import type { JournalFile } from "./journal_file.ts";

/** Whole lines of the journal between two byte positions. */
export interface JournalChunk {
  from: number;
  to: number;
  /** Valid until the next chunk is requested: they are in the journal's own buffer. */
  lines: Lines;
  /**
   * Number of skipped lines that are too long for any message; such a line is passed in several
   * chunks, and counted once.
   */
  overlong: number;
  /** Why the line between the two positions is left out: it could not be delivered. */
  passedOver?: string;
  /**
   * Nothing between the two positions can be read any more; `bytes` is null if the amount is
   * unknown.
   */
  lost?: { why: string; bytes: number | null };
}

export interface JournalBounds {
  /**
   * A chunk ends after this many lines or bytes, whichever comes first; a longer line is a chunk of
   * its own.
   */
  lines: number;
  bytes: number;
  /** A longer line is skipped. */
  lineBytes: number;
}

/**
 * Many lines share the cost of a message, its transaction and its acknowledgement: as many as the
 * steps of one block. The daemon takes a millisecond or two to store them, during which it does
 * nothing else.
 */
export const JOURNAL_BOUNDS: JournalBounds = { lines: 4096, bytes: 1 << 20, lineBytes: 64 << 20 };

const NEWLINE = 10;
const RETURN = 13;
const BRACE = 0x7b;
const NO_LINES = Lines.of();
/** Bytes per read while an overlong line is skipped. */
const SKIM_BYTES = 1 << 20;

export class Journal {
  readonly #file: JournalFile;
  readonly #bounds: JournalBounds;
  /** The journal position of `#bytes[#start]`: where the next chunk begins. */
  #position = 0;
  #bytes = new Uint8Array(0);
  #start = 0;
  #end = 0;
  /**
   * While an overlong line is skipped: position up to which no newline was found, and whether the
   * line is counted.
   */
  #skimmed: { to: number; counted: boolean } | undefined;
  /**
   * The next chunk may begin within an overlong line, of which an earlier reader has passed a part.
   */
  #mayBeWithin = false;
  /** Bytes of a line whose end is not written yet. */
  #unended = 0;
  /** The buffered bytes cannot be used without what follows them. */
  #wantsMore = false;
  #limit = Infinity;

  constructor(file: JournalFile, bounds = JOURNAL_BOUNDS) {
    this.#file = file;
    this.#bounds = bounds;
  }

  /** Where the next chunk begins. */
  get position(): number {
    return this.#position;
  }

  /** The position of the end, which is the number of written bytes; 0 while there is no file. */
  size(): number {
    return Math.min(this.#file.size(), this.#limit);
  }

  /**
   * The journal ends at the file's current end, even if other processes (a grandchild that holds
   * the file open) still append.
   */
  endHere(): void {
    this.#file.endHere();
  }

  /** The journal ends at a position. */
  endAt(position: number): void {
    this.#limit = position;
  }

  /**
   * Bytes that were read and cannot be delivered before the worker ends their line: holding it
   * would keep them back for ever.
   */
  get unended(): number {
    return this.#unended;
  }

  seek(position: number): void {
    this.#position = position;
    this.#start = this.#end = 0;
    this.#skimmed = undefined;
    this.#unended = 0;
    this.#mayBeWithin = true;
    this.#file.reached(position);
  }

  /** Bytes of the last chunk from this position on are read again. */
  giveBack(position: number): void {
    const length = this.#position - position;
    if (length === 0) return;
    if (length > this.#start) return this.seek(position);
    this.#start -= length;
    this.#position = position;
    this.#wantsMore = true;
  }

  /**
   * The next whole lines; undefined if there are none yet.
   * @param final text after the last newline is a line, too
   * @param most bytes of this chunk, if less than the bound
   */
  next(final: boolean, most = this.#bounds.bytes): JournalChunk | undefined {
    // Checks whether another process has changed the file since the last chunk.
    this.#file.size();
    this.#unended = 0;
    if (this.#mayBeWithin) this.#findBeginning();
    if (this.#skimmed !== undefined) return this.#skim(final);
    let want = Math.max(this.#bounds.bytes, this.#bytes.length);
    // Bytes after a loss are not read behind buffered lines: those are delivered, or dropped with
    // the loss, first.
    const isReadable = this.#position + (this.#end - this.#start) >= this.#file.readableFrom;
    // Smaller chunks would mean more messages and smaller blocks, so the buffer is filled; but a
    // small chunk needs no full buffer.
    const least = Math.min(most, this.#bounds.bytes);
    if (isReadable && (this.#wantsMore || this.#end - this.#start < least)) this.#fill(want);
    this.#wantsMore = false;
    for (;;) {
      // Whole lines that were read before the file changed are valid.
      const chunk = this.#cut(Math.min(most, this.#bounds.bytes));
      if (chunk !== undefined) return chunk;
      if (this.#position < this.#file.readableFrom) return this.#passLoss();
      const held = this.#end - this.#start;
      if (held > this.#bounds.lineBytes) {
        this.#skimmed = { to: this.#position + held, counted: false };
        this.#start = this.#end = 0;
        this.#bytes = new Uint8Array(0);
        return this.#skim(final);
      }
      if (held >= want) want = Math.min(want * 2, this.#bounds.lineBytes + 1);
      if (this.#fill(want)) continue;
      if (this.#position < this.#file.readableFrom) continue;
      if (final && held > 0) return this.#take(held, [held]);
      this.#unended = held;
      return undefined;
    }
  }

  /** The byte before tells whether a line begins here. */
  #findBeginning(): void {
    this.#mayBeWithin = false;
    const before = this.#position - 1;
    if (before < this.#file.readableFrom) return;
    const byte = new Uint8Array(1);
    if (this.#file.read(before, byte) === 0 || byte[0] === NEWLINE || byte[0] === RETURN) return;
    this.#skimmed = { to: this.#position, counted: true };
  }

  #passLoss(): JournalChunk {
    const from = this.#position;
    const lost = { why: this.#file.whyLost, bytes: this.#file.lostFrom(from) };
    this.seek(this.#file.readableFrom);
    return { from, to: this.#position, lines: NO_LINES, overlong: 0, lost };
  }

  /** Reads more after the buffered bytes, into space for `want` bytes; false at the end. */
  #fill(want: number): boolean {
    const held = this.#end - this.#start;
    if (this.#bytes.length < want) {
      const larger = new Uint8Array(want);
      larger.set(this.#bytes.subarray(this.#start, this.#end));
      this.#bytes = larger;
    } else if (this.#start > 0) {
      this.#bytes.copyWithin(0, this.#start, this.#end);
    }
    this.#start = 0;
    this.#end = held;
    const at = this.#position + held;
    const capacity = Math.min(this.#bytes.length - held, this.#limit - at);
    if (capacity <= 0) return false;
    const read = this.#file.read(at, this.#bytes.subarray(held, held + capacity));
    this.#end += read;
    return read > 0;
  }

  /** A chunk of the buffered bytes, if they contain a whole line. */
  #cut(bytes: number): JournalChunk | undefined {
    const { lines, bytes: longest } = this.#bounds;
    const held = this.#bytes.subarray(this.#start, this.#end);
    const bar = endOfBar(held, longest);
    if (bar !== undefined) return this.#take(bar + 1, [bar]);
    const ends: number[] = [];
    for (let length = 0; ends.length < lines && length < bytes; length = ends.at(-1)! + 1) {
      const newline = held.indexOf(NEWLINE, length);
      if (newline < 0) break;
      // A longer line goes alone, so that a message has either the allowed size or one line.
      if (newline + 1 > bytes && length > 0) break;
      ends.push(newline);
    }
    return ends.length === 0 ? undefined : this.#take(ends.at(-1)! + 1, ends);
  }

  #take(length: number, ends: number[]): JournalChunk {
    const lines = new Lines(this.#bytes.subarray(this.#start, this.#start + length), ends);
    const from = this.#position;
    this.#position += length;
    this.#start += length;
    // Frees the buffer of a huge line.
    if (this.#start === this.#end && this.#bytes.length > this.#bounds.bytes * 2) {
      this.#bytes = new Uint8Array(0);
      this.#start = this.#end = 0;
    }
    return { from, to: this.#position, lines, overlong: 0 };
  }

  /** Finds the end of an overlong line without buffering it. */
  #skim(final: boolean): JournalChunk | undefined {
    const buffer = new Uint8Array(Math.min(SKIM_BYTES, this.#bounds.bytes));
    for (;;) {
      const { to: at, counted } = this.#skimmed!;
      const capacity = Math.min(buffer.length, this.#limit - at);
      const read = capacity <= 0 ? 0 : this.#file.read(at, buffer.subarray(0, capacity));
      if (this.#position < this.#file.readableFrom) return this.#passLoss();
      const newline = buffer.subarray(0, read).indexOf(NEWLINE);
      const from = this.#position;
      const overlong = counted ? 0 : 1;
      if (newline < 0 && read > 0) {
        this.#skimmed = { to: at + read, counted };
        // Passed in parts: otherwise the journal of a worker that never ends a line could never be
        // given back.
        if (at + read - from <= this.#bounds.lineBytes) continue;
        this.#position = at + read;
        this.#skimmed = { to: at + read, counted: true };
        return { from, to: this.#position, lines: NO_LINES, overlong };
      }
      if (newline < 0 && (!final || at === from)) {
        this.#unended = at - from;
        return undefined;
      }
      this.seek(newline < 0 ? at : at + newline + 1);
      this.#mayBeWithin = newline < 0;
      return { from, to: this.#position, lines: NO_LINES, overlong };
    }
  }

  close(): void {
    this.#file.close();
  }
}

/**
 * A progress bar is one line without an end: it moves by carriage returns. If it is longer than a
 * chunk, its last return within a chunk's length ends a line, wherever its newline is, so that
 * every reader sees the same lines.
 */
function endOfBar(held: Uint8Array, longest: number): number | undefined {
  if (held.length <= longest || held[0] === BRACE) return undefined;
  const newline = held.indexOf(NEWLINE);
  if (newline >= 0 && newline <= longest) return undefined;
  const found = held.lastIndexOf(RETURN, longest - 1);
  return found > 0 ? found : undefined;
}
