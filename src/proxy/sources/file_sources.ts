/**
 * The files that a proxy observes besides the journal: finds them, reads them one batch after the other, and makes the
 * batches' messages. The daemon stores each batch with its file's cursor; what it has not stored is read again.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../../base/errors.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { readRecordInProxy, writeRecord } from "../../os/untrusted.ts";
import type { SourceBatchSchema } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { SourceCursor, WorkerEventRecord } from "../../telemetry/batch.ts";
import type { LineContext } from "../../telemetry/dialects/parse_line.ts";
import { Discovery, type FoundFile } from "./discovery.ts";
import { FileSource } from "./file_source.ts";
import { labelOf, writerOf } from "./labels.ts";
import type { Observation } from "./observation.ts";
import { pidInName, processesOf, writtenByAnyone } from "./open_files.ts";
import { type Embedded, eventOf, problemEvent, type Records, recordsOf } from "./source_records.ts";

export type SourceBatchInit = Exclude<MessageInitShape<typeof SourceBatchSchema>, { $typeName: string }>;

export const MAX_SOURCES = 256;
const MAX_ARTIFACTS = 1000;
const MAX_MEDIA_FILES = 1000;
const MAX_MEDIA_BYTES = 4 << 20;

/** Most runs end before, or write no files: nothing is read so early but what there is at the end. */
const FIRST_READ_MS = 1000;
const LOOK_MS = { least: 1000, most: 5000 };
const POLL_MS = { least: 250, most: 1000, idle: 5000 };
/** While files grow now and then they are polled as often as once a second. */
const ACTIVE_MS = 60_000;
/** Asking who has a file open costs a process. */
const ASK_MS = { least: 2000, most: 30_000 };
/** Of the worker, remembered. */
const MAX_PIDS = 256;
/** A file is complete when it has not changed for so long. */
const QUIET_MS = 3000;
/** A file that nobody was seen to write for so long is told of; several, by one event each. */
const UNCLAIMED_MS = 10_000;
const MAX_UNCLAIMED = 8;
/** After the worker's end: what cannot be read within this time is left out. */
const FINAL_MS = 60_000;

/** What a program writes last may be a moment later than the file that tells its end. */
const LATER_MS = 2000;

const WHY_LEFT_OUT = {
  depth: "too deep",
  directories: "too many directories",
  permission: "not among the permissions of this proxy",
};

/** The cursor of what is no file: which artifacts were told, what was said once. */
const OWN_SOURCE = ".";

/** Who else there is. */
interface Company {
  /** In the same working directory. */
  shared: boolean;
  /** On this host, so perhaps in places that all have in common. */
  others: boolean;
}

interface OwnState {
  shared: boolean;
  /** Absent in what earlier versions stored. */
  others?: boolean;
  /** Processes of the worker, while others use its directory, too; absent in what earlier versions stored. */
  pids?: number[];
  /** What they are in their sandbox; as many. */
  inner?: number[];
  /** Where they are. */
  host?: string;
  /** Told artifacts: size and time of change by path. */
  artifacts: Record<string, string>;
  said: string[];
}

export interface FileSourcesPlan {
  files: RunFiles;
  attempt: number;
  observation: Observation;
  /** Directories that are not looked into. */
  excluded: readonly string[];
  context: LineContext;
  log: Logger;
  /** Unix milliseconds: the attempt is long over, so files begun later are not its own, and no process can be asked. */
  endedAt?: number;
}

export class FileSources {
  readonly #plan: FileSourcesPlan;
  readonly #discovery: Discovery;
  readonly #startedAt = performance.now();
  /** By name. */
  #sources = new Map<string, FileSource>();
  #own: { serial: number; state: OwnState } = noOwn();
  /** The daemon takes them. */
  #isOn = false;
  /** To be told with the next batch. */
  #events: WorkerEventRecord[] = [];
  /** What is known besides is with the daemon. */
  #isToldOf = true;
  #found: FoundFile[] = [];
  /** Sizes of files as an earlier program had left them, by path. */
  #before: Map<string, number> | undefined;
  #lookAt = 0;
  #lookMs = LOOK_MS.least;
  #pollMs = POLL_MS.least;
  #askAt = 0;
  #askMs = ASK_MS.least;
  #open: Set<string> = new Set();
  /** Of these files who writes them was seen, be it another run. */
  #written: Set<string> = new Set();
  #next = 0;
  #grewAt = -ACTIVE_MS;
  #finalUntil: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #start: { leader: number; since: number } | undefined;

  constructor(plan: FileSourcesPlan) {
    this.#plan = plan;
    this.#discovery = new Discovery(plan.files.directory, plan.observation, plan.excluded);
  }

  /** Goes on where the daemon's store ends. @param observed undefined: it takes nothing but the journal */
  restore(observed: { cursors: SourceCursor[] } & Company | undefined): void {
    this.#isOn = observed !== undefined;
    this.#events = [];
    this.#sources = new Map();
    this.#own = noOwn();
    this.#isToldOf = true;
    this.#lookAt = 0;
    for (const cursor of observed?.cursors ?? []) {
      if (cursor.name === OWN_SOURCE) {
        // What an earlier attempt has told is its own.
        if (cursor.serial > 0) this.#own = { serial: cursor.serial, state: JSON.parse(cursor.state) };
      } else this.#sources.set(cursor.name, FileSource.of(cursor));
    }
    if (observed !== undefined) this.accompanied(observed);
  }

  /** From now on. */
  accompanied({ shared, others }: Company): void {
    const { state } = this.#own;
    if ((!shared || state.shared) && (!others || state.others)) return;
    state.shared ||= shared;
    state.others ||= others;
    // It stays so when the other has ended: its files are still there.
    this.#isToldOf = false;
  }

  /** Calls `wake` when it is time to look again. */
  arm(wake: () => void): void {
    clearTimeout(this.#timer);
    if (!this.#isOn) return;
    const isActive = performance.now() - this.#grewAt < ACTIVE_MS;
    this.#timer = setTimeout(wake, Math.max(this.#pollMs, FIRST_READ_MS - (performance.now() - this.#startedAt)));
    this.#pollMs = Math.min(this.#pollMs * 2, isActive ? POLL_MS.most : POLL_MS.idle);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /**
   * The next batch of about `most` bytes; undefined when there is nothing to read for now.
   * @param final the worker has ended: everything is read to its end
   */
  next(most: number, final: boolean): { message: SourceBatchInit; bytes: number } | undefined {
    if (!this.#isOn) return undefined;
    const now = performance.now();
    this.#rememberBefore();
    if (!final && now - this.#startedAt < FIRST_READ_MS) return undefined;
    if (final) this.#finalUntil ??= now + FINAL_MS;
    if (now >= this.#lookAt || (final && this.#lookAt !== Infinity)) {
      this.#look(final);
      this.#lookAt = final ? Infinity : now + this.#lookMs;
    }
    if (final && now > this.#finalUntil!) {
      this.#sayOnce("late", `what could not be read within ${FINAL_MS / 1000} s after the worker's end is left out`);
      return this.#ownBatch();
    }
    const own = this.#ownBatch();
    if (own !== undefined) return own;
    const sources = [...this.#sources.values()];
    for (let i = 0; i < sources.length; i++) {
      const source = sources[(this.#next + i) % sources.length]!;
      const batch = this.#read(source, most, final);
      if (batch === undefined) continue;
      this.#next = (this.#next + i + 1) % sources.length;
      this.#pollMs = POLL_MS.least;
      this.#grewAt = now;
      return batch;
    }
    return this.#ownBatch();
  }

  /**
   * For who reads an attempt's files after its proxy: what there is of each, one after the other, without what is of no file
   * in particular.
   * @param which "known": of files with a cursor what is behind it; "new": of others, too; "again": what is before the cursors
   */
  *left(
    cursors: readonly SourceCursor[],
    company: Company,
    most: number,
    which: "known" | "new" | "again",
  ): Generator<SourceBatchInit> {
    this.restore({ cursors: [...cursors], ...company });
    for (const [name, source] of this.#sources) {
      const info = statOf(name);
      // Who has written to it since is not known.
      const isLater = info !== undefined && changedAt(info) > (this.#plan.endedAt ?? Infinity) + LATER_MS;
      if (info === undefined || isLater || source.isOther(info)) this.#sources.delete(name);
    }
    if (which === "again") {
      this.#sources = new Map(
        [...this.#sources.keys()].map((name) => [name, FileSource.again(cursors.find((one) => one.name === name)!)]),
      );
    }
    if (which === "new") {
      this.#rememberBefore();
      this.#look(true);
    }
    for (const source of this.#sources.values()) {
      for (let batch; (batch = this.#read(source, most, which !== "again")) !== undefined;) yield batch.message;
    }
  }

  #read(source: FileSource, most: number, final: boolean): { message: SourceBatchInit; bytes: number } | undefined {
    let bytes = 0;
    const records: Records = { episodes: [], events: [] };
    const wasNew = source.isNew;
    try {
      while (bytes < most && records.episodes.length + records.events.length === 0) {
        const chunk = source.read(most, final);
        if (chunk === undefined) break;
        bytes += chunk.bytes;
        const { episodes, events } = recordsOf(
          chunk.records,
          source.path,
          this.#plan.context,
          (media) => this.#keep(media),
        );
        records.episodes.push(...episodes);
        records.events.push(...events, ...chunk.problems.map((problem) => problemEvent(source.path, problem)));
      }
    } catch (error) {
      // What is no file of its own any more, or was removed, is not read; its cursor stays.
      if (!(error instanceof Deno.errors.NotFound)) {
        this.#sayOnce(source.name, `${source.path} is not read: ${messageOf(error)}`);
      }
      return undefined;
    }
    if (records.episodes.length + records.events.length === 0) return undefined;
    if (wasNew) {
      const data = { source: source.path, format: source.format, label: source.label };
      records.events.unshift(eventOf("source_observed", data, undefined));
    }
    return { message: messageWith(source.advance(), records), bytes };
  }

  /** What is to be told of no file in particular. */
  #ownBatch(): { message: SourceBatchInit; bytes: number } | undefined {
    if (this.#events.length === 0 && this.#isToldOf) return undefined;
    this.#isToldOf = true;
    const events = this.#events.splice(0);
    const cursor = { name: OWN_SOURCE, label: "", serial: ++this.#own.serial, state: JSON.stringify(this.#own.state) };
    return { message: messageWith(cursor, { episodes: [], events }), bytes: 1 };
  }

  // ------------------------------------------------------------------------------------------------- which files

  /** Before the worker has begun to write, or nearly so. */
  #rememberBefore(): void {
    if (this.#before !== undefined) return;
    this.#before = new Map();
    const { since } = this.#started();
    for (const { path } of this.#discovery.look()) {
      const info = statOf(path);
      if (info !== undefined && changedAt(info) < since) this.#before.set(path, info.size);
    }
  }

  #look(final: boolean): void {
    try {
      this.#found = this.#discovery.look();
    } catch (error) {
      this.#sayOnce("look", `files cannot be looked for: ${messageOf(error)}`);
      return;
    }
    const known = this.#sources.size;
    const { since } = this.#started();
    // The program itself is there from the beginning, and perhaps gone when its last file is looked at.
    const { shared, pids = [] } = this.#own.state;
    if (shared && pids.length === 0 && this.#plan.endedAt === undefined) this.#askProcesses(final);
    const undecided: FoundFile[] = [];
    for (const file of this.#found) {
      if (this.#sources.has(file.path)) continue;
      const info = statOf(file.path);
      if (info === undefined || !info.isFile || changedAt(info) < since) continue;
      if ((info.birthtime?.getTime() ?? 0) > (this.#plan.endedAt ?? Infinity)) continue;
      if (!this.#isOurs(file, info, since)) undecided.push(file);
      else this.#take(file, info, final);
    }
    if (undecided.length > 0 && this.#plan.endedAt === undefined) this.#ask(undecided, final);
    for (const [what, directory] of this.#discovery.leftOut) {
      this.#sayOnce(
        what,
        `${WHY_LEFT_OUT[what]}: ${directory} is not looked into, others may not be either; name what lies there ` +
          "with --observe",
      );
    }
    this.#lookMs = this.#sources.size > known ? LOOK_MS.least : Math.min(this.#lookMs * 2, LOOK_MS.most);
  }

  #isOurs(file: FoundFile, info: Deno.FileInfo, since: number): boolean {
    if (file.place === "run" || file.place === "asked" || this.#open.has(file.path)) return true;
    const isBegun = (info.birthtime?.getTime() ?? changedAt(info)) >= since && !this.#before?.has(file.path);
    const { shared, others } = this.#own.state;
    const isAlone = !shared && (file.place === "cwd" || !others);
    return isBegun && (isAlone || this.#isByOurProcess(file.path));
  }

  #isByOurProcess(path: string): boolean {
    const { pids, host } = this.#own.state;
    const pid = host === undefined ? undefined : pidInName(path, host);
    return pid !== undefined && pids?.includes(pid) === true;
  }

  /** Files in a directory that others use, too, are the worker's if it has them open, or if their names tell its processes. */
  #ask(undecided: readonly FoundFile[], final: boolean): void {
    if (this.#askProcesses(final)) {
      const written = writtenByAnyone();
      for (const { path } of undecided) if (written.has(path)) this.#written.add(path);
    }
    const { since } = this.#started();
    const unclaimed: FoundFile[] = [];
    for (const file of undecided) {
      const info = statOf(file.path);
      if (info === undefined) continue;
      if (this.#isOurs(file, info, since)) this.#take(file, info, final);
      else if (file.artifact === undefined && this.#isUnclaimed(file.path, info, since, final)) {
        unclaimed.push(file);
      }
    }
    if (unclaimed.length > 0) this.#tellUnclaimed(unclaimed);
  }

  /** It may be the worker's and may be another run's: it was begun since, and its name tells nothing. */
  #isUnclaimed(path: string, info: Deno.FileInfo, since: number, final: boolean): boolean {
    const { host, inner, said } = this.#own.state;
    const begunAt = info.birthtime?.getTime() ?? changedAt(info);
    if (begunAt < since || this.#before?.has(path) || said.includes(path)) return false;
    if (!final && Date.now() - begunAt <= UNCLAIMED_MS) return false;
    const pid = host === undefined ? undefined : pidInName(path, host);
    return pid === undefined || inner?.includes(pid) === true;
  }

  #tellUnclaimed(files: readonly FoundFile[]): void {
    const told = this.#own.state.said.filter((what) => what.startsWith("/")).length;
    if (told >= MAX_UNCLAIMED) return;
    const unseen = files.filter(({ path }) => !this.#written.has(path));
    for (const { path, place } of unseen.slice(0, MAX_UNCLAIMED - told)) {
      this.#sayOnce(
        path,
        `${path} is not read: another run ${
          place === "cwd" ? "has the same working directory" : "was live, too"
        }, and ` +
          "neither an open descriptor nor the name tells whose file it is. " +
          `${place === "cwd" ? "Give each run its own --cwd, or name" : "Name"} the file with --observe`,
      );
    }
  }

  /** Learns what the worker's processes are, and what they write; now and then, because it costs a shell's look at all of /proc. */
  #askProcesses(final: boolean): boolean {
    const now = performance.now();
    if (now < this.#askAt && !final) return false;
    const found = processesOf(this.#started().leader);
    const { state } = this.#own;
    const known = this.#open.size;
    for (const path of found?.writes ?? []) this.#open.add(path);
    const pids = new Set([...state.pids ?? [], ...found?.pids ?? []]);
    const more = pids.size > (state.pids?.length ?? 0) && pids.size <= MAX_PIDS;
    if (more && (state.shared || state.others)) {
      // Kept: after a restart of this proxy the worker may be gone.
      state.pids = [...pids];
      state.inner = [...new Set([...state.inner ?? [], ...found?.inner ?? []])].slice(0, MAX_PIDS);
      state.host = Deno.hostname();
      this.#isToldOf = false;
    }
    this.#askMs = this.#open.size > known || more ? ASK_MS.least : Math.min(this.#askMs * 2, ASK_MS.most);
    this.#askAt = now + this.#askMs;
    if (found === undefined && state.pids === undefined && state.shared) {
      this.#sayOnce(
        "shared",
        "files in the working directory cannot be told from those of other runs in it: only the run's directory is " +
          "observed, and what --observe names",
      );
    }
    return true;
  }

  #take(file: FoundFile, info: Deno.FileInfo, final: boolean): void {
    if (file.artifact !== undefined) return this.#tellArtifact(file, info, final);
    if (this.#sources.size >= MAX_SOURCES) {
      return this.#sayOnce("files", `more than ${MAX_SOURCES} files: ${file.path} and others are not read`);
    }
    const taken = new Map([...this.#sources.values()].map(({ label, path }) => [label, writerOf(path)]));
    const from = this.#before?.get(file.path) ?? 0;
    const source = FileSource.at(file.path, file.root, labelOf(file.path, taken), from);
    this.#sources.set(source.name, source);
  }

  #tellArtifact(file: FoundFile, info: Deno.FileInfo, final: boolean): void {
    const { artifacts } = this.#own.state;
    const is = `${info.size} ${changedAt(info)}`;
    if (artifacts[file.path] === is || (!final && Date.now() - changedAt(info) < QUIET_MS)) return;
    if (artifacts[file.path] === undefined && Object.keys(artifacts).length >= MAX_ARTIFACTS) {
      return this.#sayOnce("artifacts", `more than ${MAX_ARTIFACTS} files: ${file.path} and others are no artifacts`);
    }
    artifacts[file.path] = is;
    const data = { path: file.path, kind: file.artifact, bytes: info.size, changed_at: changedAt(info) };
    this.#events.push(eventOf("artifact", data, changedAt(info) / 1000));
  }

  #sayOnce(what: string, detail: string): void {
    const { said } = this.#own.state;
    if (said.includes(what) || said.length >= MAX_SOURCES) return;
    said.push(what);
    this.#plan.log.warn({ detail }, "not all files are observed");
    this.#events.push(eventOf("source_problem", { problem: "left_out", detail }, undefined));
  }

  /** The worker's group, and when it was started, by the clock of the run's file system. */
  #started(): { leader: number; since: number } {
    if (this.#start !== undefined) return this.#start;
    const path = this.#plan.files.workerFile(this.#plan.attempt);
    const info = statOf(path);
    let leader = 0;
    try {
      leader = Number(JSON.parse(readRecordInProxy(path) ?? "{}").pid) || 0;
    } catch {
      // Torn by a crash: nothing is known to be the worker's by its open files then.
    }
    return this.#start = { leader, since: info === undefined ? Date.now() : changedAt(info) };
  }

  // ------------------------------------------------------------------------------------------------- media

  /** The same record is the same file, however often it is read. */
  #keep({ media, tag, step, index, type, bytes }: Embedded): string | undefined {
    if (bytes.length > MAX_MEDIA_BYTES) return undefined;
    const directory = `${this.#plan.files.directory}/media`;
    const name = `${tag.replace(/[^\w.-]+/g, "_").slice(0, 80)}-${step ?? 0}-${index}.${type.split("/")[1] ?? media}`;
    try {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      if (statOf(`${directory}/${name}`) === undefined && [...Deno.readDirSync(directory)].length >= MAX_MEDIA_FILES) {
        this.#sayOnce("media", `more than ${MAX_MEDIA_FILES} pictures and sounds: further ones are not kept`);
        return undefined;
      }
      writeRecord(`${directory}/${name}`, bytes);
      return `media/${name}`;
    } catch (error) {
      this.#sayOnce("media", `pictures and sounds are not kept: ${messageOf(error)}`);
      return undefined;
    }
  }
}

function noOwn(): { serial: number; state: OwnState } {
  return { serial: 0, state: { shared: false, artifacts: {}, said: [] } };
}

const encoder = new TextEncoder();
const json = (records: unknown[]) => records.length === 0 ? new Uint8Array(0) : encoder.encode(JSON.stringify(records));

function messageWith({ serial, ...cursor }: SourceCursor, { episodes, events }: Records): SourceBatchInit {
  return {
    cursor: { ...cursor, serial: BigInt(serial) },
    episodesJson: json(episodes),
    eventsJson: json(events),
  };
}

function statOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

function changedAt(info: Deno.FileInfo): number {
  return Math.floor(info.mtime?.getTime() ?? 0);
}
