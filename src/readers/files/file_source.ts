/**
 * One observed file: how far it was read, where reading continues, and whether it is still the same
 * file.
 */
import { asEffectiveUser } from "../../os/rights/effective_user.ts";
import { infoOf, openRegularInProxy } from "../../os/files/untrusted.ts";
import type { WorkerUser } from "../../os/rights/worker_user.ts";
import { EXPORT_HEAD_BYTES, isExported } from "../tensorboard/exported.ts";
import { CONTENT_HEAD_BYTES } from "../content.ts";
import { fileKindOf, formatOfFile, formatOfName, openFormat, withTag } from "../formats.ts";
import { MAX_RECORD_BYTES } from "../format/base_reader.ts";
import { placeable } from "../format/placeable.ts";
import type { FormatName, FormatReader, FormatState, Problem } from "../format/format_reader.ts";
import type { SourceRecord } from "../format/tracker_records.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";

/**
 * A reader with a larger state (the columns of a huge table) is given up: all cursors are sent in
 * one message.
 */
const MAX_STATE_LENGTH = 64 << 10;
const MAX_RECORDS = 2000;

/** `SourceCursor.state`. */
interface State {
  path: string;
  root: string;
  ino: number | null;
  /** Records before this position belong to an earlier program. */
  from: number;
  /** The file is not read any more. */
  over: boolean;
  /** The problems by kind, and how many of each were reported. Absent in earlier versions. */
  problems?: Record<string, CountedProblem & { reported: number }>;
  reader: FormatState;
}

/**
 * All problems of one kind in a file: the first one, with their number and the sum of their bytes.
 */
export interface CountedProblem extends Problem {
  count: number;
}

export interface Chunk {
  records: SourceRecord[];
  /**
   * One of a kind, when the file was read to its end; with the last read again if there are at
   * least twice as many.
   */
  problems: CountedProblem[];
  /** How many bytes were read. */
  bytes: number;
}

/**
 * Whether mosaic has written the file, as far as it can be read.
 * @param root the directory below which links are not followed
 * @param user who may read it; undefined: this process's
 */
export function isExportedFile(path: string, root: string, user: WorkerUser | undefined): boolean {
  const format = formatOfName(path);
  const head = format === undefined ? undefined : headOf(path, root, user, EXPORT_HEAD_BYTES);
  return head !== undefined && isExported(format!, head);
}

/**
 * The format of a file by its name, or by its content; undefined if no reader takes it, or there is
 * too little to tell.
 */
export function formatAt(
  path: string,
  root: string,
  user: WorkerUser | undefined,
): FormatName | undefined {
  const kind = fileKindOf(path);
  if (kind !== undefined && kind.byContent !== true) return kind.format;
  const head = headOf(path, root, user, CONTENT_HEAD_BYTES);
  return head === undefined ? undefined : formatOfFile(path, head);
}

/** A file's first bytes; undefined if it cannot be read: its reader reports why. */
export function headOf(
  path: string,
  root: string,
  user: WorkerUser | undefined,
  bytes: number,
): Uint8Array | undefined {
  try {
    using file = asEffectiveUser(user, () => openRegularInProxy(path, root));
    return file === undefined ? undefined : readAt(file, 0, bytes);
  } catch {
    return undefined;
  }
}

export class FileSource {
  readonly name: string;
  readonly label: string;
  #serial: number;
  readonly #state: Omit<State, "reader">;
  readonly #reader: FormatReader;
  /** Identifies the file's state when everything was read. */
  #seen = "";
  /**
   * The file's state and the cursor at the last read: if both are unchanged, nothing more can be
   * read.
   */
  #last = "";
  #want = 0;
  #isExported = false;
  /** Bytes after it are not read. */
  #limit = Infinity;

  private constructor(cursor: Omit<SourceCursor, "state">, { reader, ...state }: State) {
    this.name = cursor.name;
    this.label = cursor.label;
    this.#serial = cursor.serial;
    this.#state = state;
    this.#reader = openFormat(reader.format, reader);
  }

  /** @param from where this attempt's output begins, in a file that existed before */
  static at(
    path: string,
    root: string,
    label: string,
    from: number,
    format = formatOfName(path)!,
  ): FileSource {
    const reader = openFormat(format).state();
    return new FileSource({ name: path, label, serial: 0 }, {
      path,
      root,
      ino: null,
      from,
      over: false,
      reader,
    });
  }

  /**
   * Continues where the daemon's store ends. @param opened also if it was read to its end
   * @throws for a cursor that no proxy has written
   */
  static of(cursor: SourceCursor, opened = false): FileSource {
    const state = JSON.parse(cursor.state) as State;
    // The previous attempt had read it to its end.
    return new FileSource(cursor, { ...state, over: state.over && cursor.serial > 0 && !opened });
  }

  /** From its beginning to the cursor, and no further. */
  static again(cursor: SourceCursor): FileSource {
    const { path, root, from, reader } = JSON.parse(cursor.state) as State;
    const source = FileSource.at(path, root, cursor.label, from, reader.format);
    source.#limit = openFormat(reader.format, reader).offset;
    return source;
  }

  /** Whether the inode shows that another file is in its place. */
  isOther(info: Deno.FileInfo): boolean {
    return this.#state.ino !== null && this.#state.ino !== info.ino;
  }

  get path(): string {
    return this.#state.path;
  }
  get isNew(): boolean {
    return this.#serial === 0;
  }
  get format(): string {
    return this.#reader.format;
  }

  /** Before its first read. @param others of the same writer, in the same format */
  follow(others: readonly FileSource[]): void {
    this.#reader.follow?.(others.map((other) => other.#reader.state()));
  }

  /** The cursor after the last read, for the next batch. */
  advance(): SourceCursor {
    const state = JSON.stringify({ ...this.#state, reader: this.#reader.state() } satisfies State);
    return { name: this.name, label: this.label, serial: ++this.#serial, state };
  }

  /**
   * The next content, about `most` bytes; undefined if there is none.
   * @param end nothing will be appended any more
   * @param user who may read it; undefined: this process's
   * @throws if the file cannot be read, or another file is in its place
   */
  read(most: number, end: boolean, user?: WorkerUser): Chunk | undefined {
    if (this.#state.over) return undefined;
    const info = infoOf(this.path, this.#state.root);
    if (info === undefined) throw new Deno.errors.NotFound(`${this.path} is gone`);
    const seen = `${info.ino} ${info.size} ${info.mtime?.getTime()}`;
    if (seen === this.#seen && !end) return undefined;
    using file = asEffectiveUser(user, () => openRegularInProxy(this.path, this.#state.root));
    if (file === undefined) return undefined;
    const { ino, size: whole } = file.statSync();
    const size = Math.min(whole, this.#limit);
    const problems: Problem[] = [];
    const isOther = this.#state.ino !== null && ino !== this.#state.ino;
    if (isOther || size < this.#reader.offset) {
      this.#beginAgain(isOther ? "another file" : "shorter", size, problems);
    }
    this.#state.ino = ino;

    const from = this.#reader.offset;
    const before = this.#state.from > from ? this.#state.from - from : Infinity;
    const bytes = readAt(file, from, Math.min(size - from, before, Math.max(most, this.#want)));
    // Checked at each beginning: an export may overwrite a file of the worker.
    if (from === 0 && isExported(this.#reader.format, bytes.subarray(0, EXPORT_HEAD_BYTES))) {
      this.#seen = seen;
      return this.#exported(size);
    }
    // Checked after reading the content, which must belong to a file with this beginning.
    if (from > 0 && !this.#reader.isSame(readAt(file, 0, this.#reader.headBytes))) {
      this.#beginAgain("another beginning", size, problems);
      return { records: [], problems: this.#due(problems, true, false), bytes: 0 };
    }
    const atEnd = from + bytes.length >= size;
    const { records: read, problems: more, need, again } = this.#reader.read(bytes, {
      end: end && atEnd,
      maxRecords: MAX_RECORDS,
    });
    const { records, problems: unplaced } = placeable(read, from);
    problems.push(...more, ...unplaced);
    this.#want = need > bytes.length ? Math.min(need, MAX_RECORD_BYTES + 1024) : 0;
    // These bytes could not be decoded alone: read more, if there is more.
    if (!again && !atEnd && this.#reader.offset === from) {
      this.#want = Math.min(Math.max(need, bytes.length * 2), MAX_RECORD_BYTES + 1024);
      return { records, problems: this.#due(problems, false, false), bytes: 1 };
    }
    const now = `${seen} ${this.#reader.offset}`;
    if (!again && atEnd) {
      if (this.#reader.offset === size || now === this.#last) this.#seen = seen;
      if (end) this.#state.over = true;
    }
    this.#last = now;
    if (JSON.stringify(this.#reader.state()).length > MAX_STATE_LENGTH) {
      problems.push({
        what: "too_large",
        at: from,
        bytes: size,
        detail: "too many columns or tags; it is read no further",
      });
      this.#reader.restart();
      this.#state.over = true;
    }
    const own = this.#reader.offset <= this.#state.from ? [] : withTag(records, this.path);
    const due = this.#due(problems, (!again && atEnd) || this.#state.over, end && atEnd);
    const isNothing = own.length + due.length === 0 && !again && atEnd;
    return isNothing
      ? undefined
      : { records: own, problems: due, bytes: Math.max(1, this.#reader.offset - from) };
  }

  /**
   * Counts problems, so that a file that is no log makes one event and not one for each line.
   * @param caughtUp everything was read for now: reports kinds for the first time
   * @param end nothing will be appended: reports also kinds that have at least doubled since
   */
  #due(more: readonly Problem[], caughtUp: boolean, end: boolean): CountedProblem[] {
    const counted = this.#state.problems ??= {};
    for (const problem of more) {
      const one = counted[problem.what] ??= { ...problem, bytes: 0, count: 0, reported: 0 };
      one.count++;
      one.bytes += problem.bytes;
    }
    return Object.values(counted).flatMap((one) => {
      const { reported, ...problem } = one;
      if (!(reported === 0 ? caughtUp : end && problem.count >= 2 * reported)) return [];
      one.reported = problem.count;
      return [problem];
    });
  }

  /** Reports once that an export is in the place of what was read before. */
  #exported(size: number): Chunk | undefined {
    if (this.isNew || this.#isExported) return undefined;
    this.#isExported = true;
    const detail = "mosaic export has overwritten it; what it contains now is not read";
    return {
      records: [],
      problems: this.#due([{ what: "replaced", at: 0, bytes: size, detail }], true, true),
      bytes: 1,
    };
  }

  /** A table skips the rows that it has returned already, and reports if they differ. */
  #beginAgain(why: string, size: number, problems: Problem[]): void {
    if (this.#reader.skipsKnown !== true) {
      const detail = `${why} than what was read before; it is read from its beginning`;
      problems.push({ what: "replaced", at: this.#reader.offset, bytes: size, detail });
    }
    this.#reader.restart();
    this.#state.from = 0;
    this.#seen = "";
  }
}

function readAt(file: Deno.FsFile, from: number, length: number): Uint8Array {
  const bytes = new Uint8Array(Math.max(0, length));
  file.seekSync(from, Deno.SeekMode.Start);
  let filled = 0;
  while (filled < bytes.length) {
    const read = file.readSync(bytes.subarray(filled));
    if (read === null || read === 0) break;
    filled += read;
  }
  return bytes.subarray(0, filled);
}
