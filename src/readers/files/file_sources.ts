/**
 * The files that a proxy observes besides the journal: finds them, reads one batch after the other,
 * and builds the messages. The daemon stores each batch with its file's cursor; what is not stored
 * is read again.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../../base/errors.ts";
import { infoIfThere } from "../../os/files/files.ts";
import { asEffectiveUser } from "../../os/rights/effective_user.ts";
import type { Logger } from "../../base/log.ts";
import type { SourceBatchSchema } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import type { LineContext } from "../lines/parse_line.ts";
import type { FoundFile } from "./discovery.ts";
import { CONTENT_HEAD_BYTES, looksLogged } from "../content.ts";
import { FileSource, formatAt, headOf, isExportedFile } from "./file_source.ts";
import { matcherOf } from "./observation.ts";
import { labelOf, writerOf } from "./labels.ts";
import { keepMedia } from "./media_files.ts";
import { compareEnds, isEndOfTrial } from "./child_places.ts";
import { type Company, OWN_SOURCE, OwnSource } from "./own_source.ts";
import { Pace } from "./pace.ts";
import type { FormatName } from "../format/format_reader.ts";
import { eventOf, problemEvent, type Records, recordsOf } from "./source_records.ts";
import { changedAt } from "./file_times.ts";
import { type WorkerFile, WorkerFiles, type WorkerFilesPlan } from "./worker_files.ts";

export type SourceBatchInit = Exclude<
  MessageInitShape<typeof SourceBatchSchema>,
  { $typeName: string }
>;

const MAX_SOURCES = 2048;
/** With more files than this, those that do not grow are looked at less often. */
const MANY_SOURCES = 64;
const REST_MS = { least: 1000, most: 30_000 };

/** Most runs write no files or end before this: the first read is this late, or at the end. */
const FIRST_READ_MS = 1000;
const SCAN_MS = { least: 1000, most: 5000 };
const POLL_MS = { least: 250, most: 1000, idle: 5000 };
/** For so long after a growth, files are polled at least once a second. */
const ACTIVE_MS = 60_000;
/** A file is complete when it has not changed for this long. */
const QUIET_MS = 3000;
/** After the worker's end: what cannot be read within this time is left out. */
const FINAL_MS = 60_000;
/** A program's last output may come a moment after the file that marks its end. */
const LATER_MS = 2000;

export interface FileSourcesPlan extends WorkerFilesPlan {
  context: LineContext;
  /** The numbers that the worker prints on standard error are read, too. */
  stderr?: boolean;
  log: Logger;
}

/** Files of names that data may have, of which the content is looked at. */
const MAX_LOOKED = 256;
const NO_READER = {
  what: "a file in no form that mosaic reads",
  remedy: "write JSON lines, or a table with a first row of names (docs/reference/formats.md)",
};
const NO_MATCH = {
  what: "no file has this name (--observe)",
  remedy: "give the file's path; it may be relative to the run's working directory",
};
/** Tables and JSON lines whose names no tracker uses may be data. */
const OFFERED: { readonly [format: string]: { what: string } } = {
  csv: { what: "a table with numbers" },
  jsonl: { what: "JSON lines with numbers" },
};

interface Batch {
  message: SourceBatchInit;
  /** Bytes read for it. */
  bytes: number;
  /** Points and episodes in it. */
  count?: number;
}

/** A file that somebody has named, or a pattern that names none. */
export interface NamedFile {
  path: string;
  /** undefined: it is not read. */
  format?: string | undefined;
  /** It was read before. */
  isKnown?: boolean;
  /** Why it is not read. */
  why?: string | undefined;
}

export class FileSources {
  readonly #plan: FileSourcesPlan;
  readonly #files: WorkerFiles;
  readonly #startedAt = performance.now();
  /** The daemon accepts observed files. */
  #isOn = false;
  /** By name. */
  #sources = new Map<string, FileSource>();
  #own: OwnSource;
  readonly #scan = new Pace(SCAN_MS);
  /** When sources without anything new are looked at again, and how long they then rest. */
  readonly #resting = new Map<FileSource, { due: number; pause: number }>();
  /** Sizes of files that may be data, when they were looked at. */
  readonly #looked = new Map<string, number>();
  /** Artifacts that the last look did not find. */
  #missed: ReadonlySet<string> = new Set();
  /** Which source is read next. */
  #next = 0;
  #grewAt = -ACTIVE_MS;
  #pollMs = POLL_MS.least;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #finalUntil: number | undefined;

  constructor(plan: FileSourcesPlan) {
    this.#plan = plan;
    this.#files = new WorkerFiles(plan);
    this.#own = new OwnSource(plan.log, undefined);
  }

  /**
   * Continues where the daemon's store ends. @param observed undefined: the daemon accepts only the
   * journal
   */
  restore(observed: { cursors: SourceCursor[] } & Company | undefined): void {
    this.#isOn = observed !== undefined;
    const cursors = observed?.cursors ?? [];
    this.#own = new OwnSource(this.#plan.log, cursors.find(({ name }) => name === OWN_SOURCE));
    const ofFiles = cursors.filter(({ name }) => name !== OWN_SOURCE);
    this.#sources = new Map(ofFiles.map((cursor) => [cursor.name, FileSource.of(cursor)]));
    this.#resting.clear();
    this.#takeStandardError();
    this.#scan.due = 0;
    if (observed !== undefined) this.accompanied(observed);
  }

  #takeStandardError(): void {
    const path = this.#plan.files.stderr(this.#plan.attempt);
    if (this.#plan.stderr !== true || this.#sources.has(path)) return;
    this.#sources.set(path, FileSource.at(path, this.#plan.files.directory, "stderr", 0, "text"));
  }

  /** From now on there are such other runs. */
  accompanied(company: Company): void {
    this.#own.accompanied(company);
  }

  /** Calls `wake` when the next scan is due. */
  arm(wake: () => void): void {
    clearTimeout(this.#timer);
    if (!this.#isOn) return;
    const isActive = performance.now() - this.#grewAt < ACTIVE_MS;
    this.#timer = setTimeout(
      wake,
      Math.max(this.#pollMs, FIRST_READ_MS - (performance.now() - this.#startedAt)),
    );
    this.#pollMs = Math.min(this.#pollMs * 2, isActive ? POLL_MS.most : POLL_MS.idle);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /**
   * The next batch of about `most` bytes; undefined if there is nothing to read now.
   * @param final the worker has ended: everything is read to its end
   */
  next(most: number, final: boolean): Batch | undefined {
    if (!this.#isOn) return undefined;
    const now = performance.now();
    this.#files.rememberBefore();
    if (!final && now - this.#startedAt < FIRST_READ_MS) return undefined;
    if (final) this.#finalUntil ??= now + FINAL_MS;
    if (now >= this.#scan.due || (final && this.#scan.due !== Infinity)) {
      this.#find(now, final);
      if (final) this.#scan.due = Infinity;
    }
    if (final && now > this.#finalUntil!) {
      this.#own.reportOnce(
        "late",
        `what could not be read within ${FINAL_MS / 1000} s after the worker's end is left out`,
      );
      return this.#ownBatch();
    }
    return this.#ownBatch() ?? this.#fileBatch(most, final, now) ?? this.#ownBatch();
  }

  /**
   * For a reader that comes after the attempt's proxy: the content of each file, one after the
   * other, without records that belong to no file.
   * @param which "known": files with a cursor, from the cursor on; "new": also others; "again":
   * what is before the cursors
   */
  *left(
    cursors: readonly SourceCursor[],
    company: Company,
    most: number,
    which: "known" | "new" | "again",
  ): Generator<SourceBatchInit> {
    this.restore({ cursors: [...cursors], ...company });
    for (const [name, source] of this.#sources) {
      const info = infoIfThere(name);
      // Who has written to it since is not known.
      const isLater = info !== undefined &&
        changedAt(info) > (this.#plan.endedAt ?? Infinity) + LATER_MS;
      if (info === undefined || isLater || source.isOther(info)) this.#sources.delete(name);
    }
    if (which === "again") {
      // A file without a cursor, such as a standard error of which nothing was read, has nothing
      // before it.
      const read = cursors.filter(({ name }) => this.#sources.has(name));
      this.#sources = new Map(read.map((cursor) => [cursor.name, FileSource.again(cursor)]));
    }
    if (which === "new") {
      this.#files.rememberBefore();
      this.#find(performance.now(), true);
    }
    for (const source of this.#sources.values()) {
      for (let batch; (batch = this.#read(source, most, which !== "again")) !== undefined;) {
        yield batch.message;
      }
    }
  }

  /**
   * The files that were named when the run had begun, or was over: each with what becomes of it,
   * then the content that is not stored yet.
   * @param cursors of the files that were read before
   * @param isOver the run has ended: a file that is named without wildcards is read also if it is
   * older
   */
  *named(
    cursors: readonly SourceCursor[],
    most: number,
    isOver: boolean,
  ): Generator<{ file: NamedFile } | { path: string; message: SourceBatchInit; count: number }> {
    this.restore({ cursors: [...cursors], shared: false, others: false, below: [] });
    const found = this.#files.list().filter(({ path }) => this.#files.isRequested(path));
    const known = new Map(cursors.map((cursor) => [cursor.name, cursor]));
    const plain = isOver
      ? this.#plan.observation.globs.filter(({ glob }) => !/[*?]/.test(glob))
      : [];
    const isPlain = (path: string) => plain.some(({ glob }) => matcherOf(glob)(path));
    const due: FileSource[] = [];
    for (const { path, root } of found) {
      const cursor = known.get(path);
      const source = cursor === undefined
        ? this.#sourceOf(path, root, isPlain(path))
        : FileSource.of(cursor, true);
      if (typeof source === "string") {
        yield { file: { path, why: source } };
        continue;
      }
      this.#sources.set(path, source);
      due.push(source);
      yield { file: { path, format: source.format, isKnown: cursor !== undefined } };
    }
    for (const glob of this.#files.unmatched(found)) {
      yield { file: { path: glob, why: NO_MATCH.what } };
    }
    for (const source of due) {
      for (let batch; (batch = this.#read(source, most, true)) !== undefined;) {
        yield { path: source.path, message: batch.message, count: batch.count ?? 0 };
      }
    }
    const said = this.#ownBatch();
    if (said !== undefined) yield { path: OWN_SOURCE, message: said.message, count: 0 };
  }

  /** A named file without a cursor; a text: why it is not read. */
  #sourceOf(path: string, root: string, mayBeOlder: boolean): FileSource | string {
    const { user } = this.#plan.observation;
    const info = infoIfThere(path);
    if (info === undefined) return "it is gone";
    if (info.size === 0) return "it is empty";
    if (this.#files.isOlder(info) && !mayBeOlder) {
      return "it is older than the run (after its end it is read by its name)";
    }
    if (isExportedFile(path, root, user)) return "mosaic has written it (an export)";
    if (headOf(path, root, user, 1) === undefined) return "it cannot be opened";
    const format = formatAt(path, root, user);
    if (format === undefined) return NO_READER.what;
    return this.#newSource(path, root, format);
  }

  #newSource(path: string, root: string, format: FormatName): FileSource {
    const taken = new Map(
      [...this.#sources.values()].map(({ label, path }) => [label, writerOf(path)]),
    );
    return FileSource.at(path, root, labelOf(path, taken), this.#files.sizeBefore(path), format);
  }

  /** A batch of the next file in turn. */
  #fileBatch(most: number, final: boolean, now: number): Batch | undefined {
    const sources = [...this.#sources.values()];
    for (let i = 0; i < sources.length; i++) {
      const at = (this.#next + i) % sources.length;
      const source = sources[at]!;
      const rest = this.#resting.get(source);
      if (!final && rest !== undefined && now < rest.due) continue;
      const batch = this.#read(source, most, final);
      if (batch === undefined) {
        if (sources.length > MANY_SOURCES) {
          const pause = Math.min(Math.max(REST_MS.least, 2 * (rest?.pause ?? 0)), REST_MS.most);
          this.#resting.set(source, { due: now + pause, pause });
        }
        continue;
      }
      this.#resting.delete(source);
      this.#next = (at + 1) % sources.length;
      this.#pollMs = POLL_MS.least;
      this.#grewAt = now;
      return batch;
    }
  }

  #read(source: FileSource, most: number, final: boolean): Batch | undefined {
    let bytes = 0;
    let count = 0;
    const records: Records = { episodes: [], events: [] };
    const wasNew = source.isNew;
    if (wasNew) source.follow(this.#besides(source));
    try {
      while (bytes < most && records.episodes.length + records.events.length === 0) {
        // The log of standard error is mosaic's own file, in a directory that a worker with a user
        // of its own cannot enter.
        const isLog = source.path === this.#plan.files.stderr(this.#plan.attempt);
        const chunk = source.read(most, final, isLog ? undefined : this.#plan.observation.user);
        if (chunk === undefined) break;
        bytes += chunk.bytes;
        count += chunk.records.filter(({ kind }) => kind === "scalar" || kind === "episode").length;
        const { episodes, events } = recordsOf(
          chunk.records,
          source.path,
          this.#plan.context,
          {
            keep: (media) =>
              keepMedia(
                this.#plan.files.directory,
                media,
                (detail) => this.#own.reportOnce("media", detail),
              ),
            look: (path) => this.#sizeOf(path),
          },
        );
        records.episodes.push(...episodes);
        records.events.push(
          ...events,
          ...chunk.problems.map((problem) => problemEvent(source.path, problem)),
        );
      }
    } catch (error) {
      // A file that was removed or is now part of another is not read; its cursor stays.
      if (!(error instanceof Deno.errors.NotFound)) {
        this.#own.reportOnce(source.name, `${source.path} is not read: ${messageOf(error)}`);
      }
      return undefined;
    }
    if (records.episodes.length + records.events.length === 0) return undefined;
    if (wasNew) {
      const data = { source: source.path, format: source.format, label: source.label };
      records.events.unshift(eventOf("source_observed", data, undefined));
    }
    return { message: messageWith(source.advance(), records), bytes, count };
  }

  /**
   * With the worker's rights: the path is its own text. An error must not cost the records around
   * it.
   */
  #sizeOf(path: string): { bytes: number; changedAt: number } | undefined {
    try {
      const info = asEffectiveUser(this.#plan.observation.user, () => infoIfThere(path));
      return info?.isFile ? { bytes: info.size, changedAt: changedAt(info) } : undefined;
    } catch {
      return undefined;
    }
  }

  /** The other files of its writer. */
  #besides({ path, format }: FileSource): FileSource[] {
    const writer = writerOf(path);
    if (writer === path) return [];
    return [...this.#sources.values()].filter((other) =>
      other.path !== path && other.format === format && writerOf(other.path) === writer
    );
  }

  #ownBatch(): Batch | undefined {
    const taken = this.#own.take();
    return taken && { message: messageWith(taken.cursor, taken.records), bytes: 1 };
  }

  /** Lists the files. */
  #find(now: number, final: boolean): void {
    let found: FoundFile[];
    try {
      found = this.#files.list();
    } catch (error) {
      this.#own.reportOnce("scan", `files cannot be listed: ${messageOf(error)}`);
      return this.#scan.later(now);
    }
    const known = this.#sources.size;
    const unknown = found.filter(({ path }) => !this.#sources.has(path));
    const claimed = [...this.#files.claim(unknown, this.#own, final)]
      .sort((a, b) => compareEnds(a.file.path, b.file.path));
    for (const one of claimed) this.#take(one, final);
    if (claimed.some(({ file }) => isEndOfTrial(file.path))) this.#next = known;
    this.#findDeleted(new Set(found.map(({ path }) => path)), final);
    if (final) {
      for (const glob of this.#files.unmatched(found)) this.#own.reportNotRead(glob, NO_MATCH);
    }
    this.#scan.done(now, this.#sources.size > known);
  }

  /** Artifacts that two looks in a row have missed: a file may be away while it is replaced. */
  #findDeleted(found: ReadonlySet<string>, final: boolean): void {
    const missed = new Set<string>();
    for (const path of this.#own.artifacts()) {
      if (found.has(path) || !this.#files.isGone(path)) continue;
      if (final || this.#missed.has(path)) this.#own.reportDeleted(path, Date.now());
      else missed.add(path);
    }
    this.#missed = missed;
  }

  /**
   * A program may write thousands of tables: each is opened again only after it has doubled, up to
   * what a look reads.
   */
  #isWorthALook(path: string, size: number, final: boolean): boolean {
    const before = this.#looked.get(path) ?? 0;
    const isKnown = this.#looked.has(path);
    if (!isKnown && this.#looked.size >= MAX_LOOKED) return false;
    if (before >= CONTENT_HEAD_BYTES || size <= before || (!final && size < 2 * before)) {
      return false;
    }
    this.#looked.set(path, size);
    return true;
  }

  #nameOf(path: string): string {
    const root = this.#plan.observation.roots.find((one) => path.startsWith(`${one}/`));
    return root === undefined ? path : path.slice(root.length + 1);
  }

  #take(
    { file: { path, root, artifact, place, isOffered }, info }: WorkerFile,
    final: boolean,
  ): void {
    const isRequested = place === "requested";
    if (artifact !== undefined) {
      if (!final && Date.now() - changedAt(info) < QUIET_MS) return;
      return this.#own.reportArtifact({
        path,
        kind: artifact,
        bytes: info.size,
        changedAt: changedAt(info),
      });
    }
    const { user } = this.#plan.observation;
    if (isOffered && !this.#isWorthALook(path, info.size, final)) return;
    if (isExportedFile(path, root, user)) return;
    const format = formatAt(path, root, user);
    if (format === undefined) {
      // It may get its first line later.
      if (final && isRequested && info.size > 0) this.#own.reportNotRead(path, NO_READER);
      return;
    }
    if (isOffered) {
      const head = headOf(path, root, user, CONTENT_HEAD_BYTES);
      if (head === undefined || !looksLogged(head)) return;
      return this.#own.reportNotRead(path, {
        ...OFFERED[format] ?? NO_READER,
        remedy: `mosaic observe RUN ${path}, or at the start --observe ${this.#nameOf(path)}`,
      });
    }
    if (this.#sources.size >= MAX_SOURCES) {
      return this.#own.reportOnce(
        "files",
        `more than ${MAX_SOURCES} files: ${path} and others are not read`,
      );
    }
    this.#sources.set(path, this.#newSource(path, root, format));
  }
}

const encoder = new TextEncoder();
const json = (records: unknown[]) =>
  records.length === 0 ? new Uint8Array(0) : encoder.encode(JSON.stringify(records));

function messageWith(
  { serial, ...cursor }: SourceCursor,
  { episodes, events }: Records,
): SourceBatchInit {
  return {
    cursor: { ...cursor, serial: BigInt(serial) },
    episodesJson: json(episodes),
    eventsJson: json(events),
  };
}
