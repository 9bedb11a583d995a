/**
 * Uploads the files of the run's directory to a daemon that shares no disk with this host
 * (docs/how-to/slurm.md, "Without a shared disk"). Logs are uploaded as they grow; other files when
 * they have not changed for a while, and all of them at the worker's end, before its exit is
 * reported. The daemon says how much it has of each, so nothing is stored here.
 *
 * A file's upload is one of (`Progress`):
 *
 * | State | Moves to | When |
 * |---|---|---|
 * | `new` | `asking` | it is a log, or has more than one chunk: a chunk without bytes asks how much the daemon has |
 * | `new` | `sending` | its only chunk is sent |
 * | `asking` | `sending` | the daemon says how much it has |
 * | `sending` | `sent` | the last chunk is sent, with the digest of the whole |
 * | `sending`, `sent` | `rewinding` | an answer says that the daemon has another amount (it holds, or lost a chunk) |
 * | `rewinding` | `sending` | all chunks that were under way are answered |
 * | any | `given_up` | the daemon refuses the file, or a log is emptied again and again |
 */
import { createHash } from "node:crypto";
import type { RunFiles } from "../base/layout.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/time/sleep.ts";
import { controlFiles, isLeftOut, logFiles } from "./uploaded.ts";
import { openLog } from "../journal/packed_log.ts";
import { entriesOf, openRegular } from "../os/files/untrusted.ts";
import { crc32c } from "../base/crc32c.ts";
import type { FileAck } from "../gen/mosaic/v1/ingest_pb.ts";
import type { ProxyMessageInit } from "../wire/ingest_protocol.ts";

const CHUNK_BYTES = 256 << 10;
/** A file that has not changed for this long is uploaded. */
const QUIET_MS = 2000;
/**
 * Pause between two searches of the run's directory, and at least this many times as long as a
 * search takes.
 */
const SEARCH_MS = 2000;
const SEARCH_SHARE = 20;
const MAX_FILES = 20_000;
const MAX_DEPTH = 16;
/** If the daemon's disk is full, it is asked again after this time. */
const HOLD_MS = 5000;
/**
 * Number of searches after the worker's end: a file that is still written to would be found for
 * ever.
 */
const FINAL_SEARCHES = 4;
/** A log that is truncated again and again is uploaded from its beginning at most this often. */
const MAX_EMPTIED = 3;

type ChunkMessage = Extract<ProxyMessageInit, { case: "filePiece" }>;

interface Readable extends Disposable {
  readonly size: number;
  readonly changedAt: number;
  /** It has not changed since. */
  isSame(): boolean;
  read(position: number, into: Uint8Array): Promise<number>;
}

interface Found {
  path: string;
  size: number;
  changedAt: number;
}

/** `next`: where the next chunk begins. */
type Progress =
  | { readonly t: "new" }
  | { readonly t: "asking" }
  | { readonly t: "sending" | "rewinding" | "sent"; readonly next: number }
  | { readonly t: "given_up" };

/** A file that is being uploaded. */
class Going {
  readonly path: string;
  readonly file: Readable;
  readonly isLog: boolean;
  progress: Progress = { t: "new" };
  /** Chunks that are not answered. */
  underWay = 0;
  /** How often a log was truncated. */
  emptied = 0;
  #hash = createHash("sha256");
  #hashed = 0;

  constructor(path: string, file: Readable, isLog: boolean) {
    this.path = path;
    this.file = file;
    this.isLog = isLog;
  }

  get next(): number {
    return "next" in this.progress ? this.progress.next : 0;
  }

  get isReady(): boolean {
    return this.progress.t === "new" || this.progress.t === "sending";
  }

  /** The daemon has `size` bytes, whatever was sent. */
  has(size: number): void {
    this.progress = { t: this.underWay > 0 ? "rewinding" : "sending", next: size };
  }

  /** Another file is in its place. */
  restart(): void {
    this.#hash = createHash("sha256");
    this.#hashed = 0;
  }

  hash(from: number, data: Uint8Array): void {
    if (from !== this.#hashed) return;
    this.#hash.update(data);
    this.#hashed += data.length;
  }

  /** Of the first `size` bytes. @returns undefined if the file is shorter now */
  async digest(size: number): Promise<string | undefined> {
    const buffer = new Uint8Array(CHUNK_BYTES);
    while (this.#hashed < size) {
      const part = buffer.subarray(0, Math.min(buffer.length, size - this.#hashed));
      const read = await this.file.read(this.#hashed, part);
      if (read === 0) return undefined;
      this.hash(this.#hashed, part.subarray(0, read));
    }
    return this.#hashed === size ? this.#hash.copy().digest("hex") : undefined;
  }
}

export interface NextChunk {
  message: ChunkMessage["value"];
  /** Counted in the window; includes one for the chunk itself. */
  bytes: number;
}

export class FileUploads {
  readonly #files: RunFiles;
  readonly #attempt: number;
  readonly #log: Logger;
  /** Counts connections, so that answers of an earlier one are ignored. */
  #connection = 0;
  #rate = 0;
  #mayGoAt = 0;
  #current: Going | undefined;
  #logs: Going[] = [];
  #logsTurn = true;
  #underWay: { of: Going; to: number }[] = [];
  #answered = Promise.withResolvers<void>();
  #found: Found[] = [];
  #searchAt = 0;
  /** Versions that the daemon has or has refused for good, by path. */
  readonly #settled = new Map<string, string>();
  /** Paths of files that the daemon does not have. */
  readonly #left = new Set<string>();
  readonly #unseen = new Set<string>();
  #finalSearches = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #done = { files: 0, bytes: 0 };

  constructor(files: RunFiles, attempt: number, log: Logger) {
    this.#files = files;
    this.#attempt = attempt;
    this.#log = log;
  }

  /** A file that should be uploaded, by its name and path, is on this host only. */
  get hasLeft(): boolean {
    const exists = (path: string) => lstat(`${this.#files.directory}/${path}`) !== undefined;
    return this.#unseen.size > 0 || [...this.#left].some(exists);
  }

  /** A new connection: the daemon is asked again. @param rate bytes a second; 0: unlimited */
  begin(rate: number): void {
    this.close();
    this.#rate = rate;
    this.#mayGoAt = 0;
    this.#searchAt = 0;
    this.#finalSearches = 0;
    this.#logs = logFiles(this.#files, this.#attempt).map((path) =>
      new Going(path, new Log(this.#files, path), true)
    );
  }

  close(): void {
    this.#connection++;
    clearTimeout(this.#timer);
    this.#current?.file[Symbol.dispose]();
    this.#current = undefined;
    this.#logs = [];
    this.#found = [];
    this.#underWay = [];
    this.#answered.resolve();
    this.#answered = Promise.withResolvers();
  }

  /** Calls `changed` when the next scan is due. */
  arm(changed: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(changed, Math.max(100, this.#searchAt - performance.now()));
  }

  /**
   * The next chunk; undefined if nothing is left to send, with `final` if everything is settled;
   * "closed" if the connection has changed since the call.
   */
  async next(final: boolean): Promise<NextChunk | undefined | "closed"> {
    const connection = this.#connection;
    for (;;) {
      const wait = this.#mayGoAt - performance.now();
      if (wait > 0) await sleep(wait);
      if (connection !== this.#connection) return "closed";
      if (this.#current === undefined) await this.#choose(final);
      if (connection !== this.#connection) return "closed";
      const log = this.#logs.find((one) => this.#isDue(one, final));
      const both = this.#logsTurn ? [log, this.#current] : [this.#current, log];
      this.#logsTurn = !this.#logsTurn;
      for (const going of both) {
        if (!going?.isReady) continue;
        const chunk = await this.#chunkOf(going, final);
        if (connection !== this.#connection) return "closed";
        if (chunk !== undefined) return this.#sent(going, chunk);
      }
      if (
        this.#underWay.length === 0 && this.#current === undefined &&
        !this.#logs.some((one) => this.#isDue(one, final))
      ) {
        if (final && this.#done.files > 0) this.#log.info(this.#done, "files uploaded");
        return undefined;
      }
      if (this.#underWay.length === 0) continue;
      if (!final && this.#current === undefined) return undefined;
      await this.#answered.promise;
    }
  }

  /** Whether the log has something to send. */
  #isDue(log: Going, final: boolean): boolean {
    if (log.progress.t === "sent" || log.progress.t === "given_up") return false;
    return final || log.file.size > log.next;
  }

  /** Opens the next file that the daemon may not have. */
  async #choose(final: boolean): Promise<void> {
    for (;;) {
      if (this.#found.length === 0) {
        if (performance.now() < this.#searchAt && !final) return;
        this.#search(final);
        if (this.#found.length === 0) return;
      }
      const { path } = this.#found.shift()!;
      try {
        const file = openRegular(`${this.#files.directory}/${path}`, this.#files.directory);
        if (file !== undefined) {
          return void (this.#current = new Going(path, new WholeFile(file), false));
        }
      } catch (error) {
        this.#leave(path, messageOf(error));
      }
      await sleep(0);
    }
  }

  #search(final: boolean): void {
    if (final && this.#finalSearches > FINAL_SEARCHES) return;
    const begun = performance.now();
    const now = Date.now();
    const { directory } = this.#files;
    const found: Found[] = [];
    const consider = (path: string) => {
      const info = lstat(`${directory}/${path}`);
      if (!info?.isFile) return;
      const file = { path, size: info.size, changedAt: Math.trunc(info.mtime?.getTime() ?? 0) };
      const isQuiet = final || now - file.changedAt >= QUIET_MS;
      if (isQuiet && this.#settled.get(path) !== versionOf(file)) found.push(file);
    };
    controlFiles(this.#files, this.#attempt).forEach(consider);
    let seen = 0;
    const walk = (below: string, depth: number) => {
      for (const { name, isDirectory } of entries(`${directory}${below}`, directory)) {
        if (isLeftOut(name) || (below === "" && name === "logs")) continue;
        if (++seen > MAX_FILES) return this.#beyond(`more than ${MAX_FILES} files`);
        if (!isDirectory) consider(`${below}/${name}`.slice(1));
        else if (depth > 1) walk(`${below}/${name}`, depth - 1);
        else this.#beyond(`directories deeper than ${MAX_DEPTH}`);
      }
    };
    walk("", MAX_DEPTH);
    if (final && ++this.#finalSearches > FINAL_SEARCHES) {
      for (const { path } of found.splice(0)) this.#leave(path, "it is still being written to");
    }
    // Checkpoints first: the next attempt needs them.
    const rank = ({ path }: { path: string }) => path.startsWith("checkpoints/") ? 0 : 1;
    this.#found = found.sort((a, b) => rank(a) - rank(b) || a.changedAt - b.changedAt);
    const took = performance.now() - begun;
    this.#searchAt = performance.now() + Math.max(SEARCH_MS, SEARCH_SHARE * took);
  }

  /** undefined if nothing of it is to be sent (any more). */
  async #chunkOf(going: Going, final: boolean): Promise<ChunkMessage["value"] | undefined> {
    const { file, isLog, path } = going;
    const size = file.size;
    const changedAt = isLog ? 0 : file.changedAt;
    const whole = { path, size: BigInt(size), changedAt: BigInt(changedAt) };
    if (going.progress.t === "new" && (isLog || size > CHUNK_BYTES)) {
      going.progress = { t: "asking" };
      return { ...whole, offset: 0n, data: new Uint8Array(0), crc: 0, sha256: "" };
    }
    const from = going.next;
    const data = new Uint8Array(Math.min(CHUNK_BYTES, Math.max(0, size - from)));
    for (let filled = 0; filled < data.length;) {
      const read = await file.read(from + filled, data.subarray(filled));
      if (read === 0) return this.#changed(going);
      filled += read;
    }
    going.hash(from, data);
    const isLast = isLog ? final && from + data.length >= size : from + data.length === size;
    if (isLog && data.length === 0 && !isLast) return undefined;
    let sha256 = "";
    if (isLast) {
      const digest = await going.digest(size);
      if (digest === undefined || (!isLog && !file.isSame())) return this.#changed(going);
      sha256 = digest;
    }
    going.progress = { t: isLast ? "sent" : "sending", next: from + data.length };
    return { ...whole, offset: BigInt(from), data, crc: crc32c(data), sha256 };
  }

  /** It was changed: the next search finds it again. */
  #changed(going: Going): undefined {
    if (!going.isLog) return this.#drop(going);
    // Truncated: the daemon learns it with the last chunk.
    going.progress = { t: "sending", next: going.file.size };
    going.restart();
    if (++going.emptied <= MAX_EMPTIED) return;
    going.progress = { t: "given_up" };
    this.#leave(going.path, "it is emptied again and again");
  }

  #sent(of: Going, message: ChunkMessage["value"]): NextChunk {
    const bytes = (message.data as Uint8Array).length;
    const to = Number(message.offset) + bytes;
    this.#underWay.push({ of, to });
    of.underWay++;
    if (this.#rate > 0) {
      this.#mayGoAt = Math.max(performance.now(), this.#mayGoAt) + bytes / this.#rate * 1000;
    }
    return { message, bytes: bytes + 1 };
  }

  /** To be called with each answer, in order. */
  answered(
    { offset, done, refused, hold }: Pick<FileAck, "offset" | "done" | "refused" | "hold">,
  ): void {
    const sent = this.#underWay.shift();
    if (sent === undefined) return;
    const { of, to } = sent;
    of.underWay--;
    const isCurrent = of === this.#current || this.#logs.includes(of);
    if (isCurrent && refused !== "") {
      this.#leave(of.path, refused, versionOf(of.file));
      of.progress = { t: "given_up" };
      if (!of.isLog) this.#drop(of);
    } else if (isCurrent && done) {
      this.#done = { files: this.#done.files + 1, bytes: this.#done.bytes + Number(offset) };
      if (!of.isLog) {
        this.#settled.set(of.path, versionOf(of.file));
        this.#left.delete(of.path);
        this.#drop(of);
      }
    } else if (isCurrent && of.progress.t !== "given_up") {
      if (hold) this.#mayGoAt = performance.now() + HOLD_MS;
      const isExpected = of.progress.t === "sending" || of.progress.t === "sent";
      if (hold || !isExpected || Number(offset) !== to) of.has(Number(offset));
    }
    this.#answered.resolve();
    this.#answered = Promise.withResolvers();
  }

  #drop(going: Going): undefined {
    going.file[Symbol.dispose]();
    if (this.#current === going) this.#current = undefined;
  }

  /** Some files are not scanned. */
  #beyond(why: string): void {
    if (!this.#unseen.has(why)) this.#log.warn({ why }, "files are not uploaded");
    this.#unseen.add(why);
  }

  #leave(path: string, why: string, version?: string): void {
    this.#log.warn({ path, why }, "a file is not uploaded");
    this.#left.add(path);
    const info = version === undefined ? lstat(`${this.#files.directory}/${path}`) : undefined;
    const now = info &&
      versionOf({ size: info.size, changedAt: Math.trunc(info.mtime?.getTime() ?? 0) });
    this.#settled.set(path, version ?? now ?? "");
  }
}

function versionOf({ size, changedAt }: { size: number; changedAt: number }): string {
  return `${size} ${changedAt}`;
}

function lstat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch {
    return undefined;
  }
}

function entries(directory: string, below: string): Deno.DirEntry[] {
  try {
    return entriesOf(directory, below);
  } catch {
    // Removed meanwhile, or not readable.
    return [];
  }
}

/** The file as it was when it was opened. */
class WholeFile implements Readable {
  readonly size: number;
  readonly changedAt: number;
  readonly #file: NonNullable<ReturnType<typeof openRegular>>;

  constructor(file: NonNullable<ReturnType<typeof openRegular>>) {
    this.#file = file;
    const { size, mtimeMs } = file.stat();
    this.size = size;
    this.changedAt = Math.trunc(mtimeMs);
  }

  isSame(): boolean {
    const { size, mtimeMs } = this.#file.stat();
    return size === this.size && Math.trunc(mtimeMs) === this.changedAt;
  }

  read(position: number, into: Uint8Array): Promise<number> {
    return this.#file.read(position, into);
  }
  [Symbol.dispose](): void {
    this.#file.close();
  }
}

/** A log, whatever part of it is packed. */
class Log implements Readable {
  readonly changedAt = 0;
  readonly #path: string;

  constructor(files: RunFiles, path: string) {
    this.#path = `${files.directory}/${path}`;
  }

  get size(): number {
    using log = openLog(this.#path);
    return log?.size ?? 0;
  }

  isSame(): boolean {
    return true;
  }

  async read(position: number, into: Uint8Array): Promise<number> {
    using log = openLog(this.#path);
    return await log?.read(position, into) ?? 0;
  }
  [Symbol.dispose](): void {}
}
