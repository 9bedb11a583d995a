/**
 * A run as one file (`mosaic export --format mosaic`, docs/reference/cli.md "A run on another
 * host"): an SQLite database that contains the run's rows of both databases, as databases of their
 * own, and its files, in compressed chunks. The same run gives the same bytes.
 */
import { Buffer } from "node:buffer";
import { sha256, zlib } from "../../base/node_modules.ts";
import { DatabaseSync } from "node:sqlite";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import type { OnProgress } from "../../base/text/progress_text.ts";
import { parentOf, removeIfThere } from "../../os/files/files.ts";
import { openForeign } from "../../os/database/foreign_database.ts";
import { readDatabase } from "../../os/database/read_database.ts";
import { entriesOf, infoOf, openRegular } from "../../os/files/untrusted.ts";
import { type ForeignRows, openForeignRows } from "../../registry/foreign_rows.ts";
import { isEnded, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import { childIdsOf, extractRun } from "../../registry/moved_run.ts";
import { isConfigOf, pathsOfRun } from "../../registry/retention/removal.ts";
import { explainSqlite } from "../../registry/sqlite.ts";
import { extractTelemetry } from "../../telemetry/runs/moved_run.ts";
import { type DamagedSteps, damagedSteps } from "../../telemetry/blocks/step_blocks.ts";
import { writing } from "./copied_files.ts";

const FORMAT = 1;
/** "mosa", in the field where SQLite stores the owning application. */
const APPLICATION_ID = 0x6d6f7361;
const TABLES = `
      CREATE TABLE head (format INTEGER, run_id TEXT, entries TEXT, sha256 TEXT);
      CREATE TABLE chunks (entry INTEGER, n INTEGER, data BLOB, PRIMARY KEY (entry, n));`;
const CHUNK_BYTES = 1 << 20;
/** A chunk that does not compress is a little longer than before. */
const STORED_CHUNK_BYTES = CHUNK_BYTES + (64 << 10);
const LIST_BYTES = 64 << 20;
/**
 * Bytes to which a file may unpack without `--max-unpacked`: a made-up one of 140 kB can hold
 * gigabytes. Holes do not count.
 */
const UNPACKED = { least: 256 << 20, ratio: 100 } as const;
const ZEROS = new Uint8Array(CHUNK_BYTES);
/** Files in `.mosaic` about the journal and about the worker's end. */
const CONTROL = /^(exit|journal)-\d+\.json$/;

/** Bounds on the paths of a run's files. */
const MAX_PATH = 4096;
const MAX_LEVELS = 256;

const ROWS = /^(registry\.db|telemetry\.sqlite)$/;

interface Entry {
  path: string;
  kind: "file" | "directory" | "link";
  mode: number;
  mtime: number;
  /** For a file: its bytes, and their SHA-256. For a link: none, and its target. */
  bytes: number;
  content: string;
}

export interface RunFileOutcome {
  files: number;
  bytes: number;
  /** Damaged steps, which are in the file as they are. */
  damaged: DamagedSteps[];
}

/**
 * @param withArtifacts also the run's checkpoints, videos and other recorded files
 * @param onProgress is told how many bytes of each file are in
 * @throws MosaicError `not_found` (no such run), `failed_precondition` (it is live), `unavailable`
 */
export function writeRunFile(
  stateDir: string,
  runId: string,
  file: string,
  withArtifacts: boolean,
  onProgress: OnProgress = () => {},
): RunFileOutcome {
  const layout = new Layout(stateDir);
  const [unfinished, rows] = [`${file}.tmp`, `${file}.rows.tmp`];
  const cleanUp = () =>
    [unfinished, rows, `${rows}-journal`, `${unfinished}-journal`].forEach(removeIfThere);
  cleanUp();
  try {
    using registry = reading(layout.registryDb);
    const run = registry.prepare(
      "SELECT state, base_dir FROM runs WHERE run_id = ? AND deleted_at IS NULL",
    ).get(runId);
    if (run === undefined) {
      throw new MosaicError("not_found", `no run ${runId} in ${layout.registryDb}`);
    }
    if (!isEnded(run["state"] as RunState)) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${run["state"]}: only an ended run can be moved`,
        {
          hint: `Wait until it has ended (mosaic wait ${runId}), or cancel it.`,
        },
      );
    }
    return writing(file, () => {
      Deno.openSync(unfinished, { write: true, createNew: true, mode: 0o600 }).close();
      using db = new DatabaseSync(unfinished);
      const writer = new Writer(db, onProgress);
      const inRows = (name: string, extract: (to: DatabaseSync) => boolean) => {
        Deno.openSync(rows, { write: true, createNew: true, mode: 0o600 }).close();
        using to = new DatabaseSync(rows);
        to.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
        const any = extract(to);
        to.close();
        if (any) writer.file(rows, name, { mode: 0o600, mtime: 0 }, parentOf(rows));
        Deno.removeSync(rows);
      };
      const left = new Set<string>();
      const within = childIdsOf(registry, runId);
      inRows("registry.db", (to) => {
        extractRun(registry, runId, to, rows);
        if (!withArtifacts) {
          for (const { path } of to.prepare("SELECT path FROM artifacts").all()) {
            left.add(String(path));
          }
          to.exec("DELETE FROM artifacts");
        }
        return true;
      });
      using telemetry = reading(layout.telemetryDb);
      const damaged: DamagedSteps[] = [];
      inRows("telemetry.sqlite", (to) => {
        const any = extractTelemetry(telemetry, [runId, ...within], to, rows);
        if (any) damaged.push(...damagedSteps(to));
        return any;
      });
      const directory = `${layout.trainer}/${run["base_dir"]}/${runId}`;
      for (const path of pathsOfRun(layout, runId).sort()) {
        if (path === directory) writer.tree(path, "directory", left);
        else if (path.startsWith(`${layout.configs}/`)) {
          writer.tree(path, `configs/${path.slice(layout.configs.length + 1)}`, left);
        }
      }
      const done = writer.finish(runId);
      db.close();
      Deno.renameSync(unfinished, file);
      return { files: done, bytes: Deno.statSync(file).size, damaged };
    });
  } finally {
    cleanUp();
  }
}

function reading(path: string): DatabaseSync & Disposable {
  try {
    return readDatabase(path, 5000);
  } catch (error) {
    throw explainSqlite(error, path);
  }
}

class Writer {
  readonly #db: DatabaseSync;
  readonly #entries: Entry[] = [];
  readonly #onProgress: OnProgress;

  constructor(db: DatabaseSync, onProgress: OnProgress) {
    this.#db = db;
    this.#onProgress = onProgress;
    db.exec(
      `PRAGMA journal_mode = MEMORY; PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${FORMAT};
      ${TABLES} BEGIN`,
    );
  }

  /**
   * Adds a file, or a directory with everything below it; links as links, nothing of other kinds.
   */
  tree(source: string, path: string, left: ReadonlySet<string>, below = parentOf(source)): void {
    const info = infoOf(source, below);
    if (info === undefined) return;
    const of = { mode: (info.mode ?? 0o600) & 0o777, mtime: info.mtime?.getTime() ?? 0 };
    if (info.isFile) this.file(source, path, of, below);
    else if (info.isSymlink) {
      this.#entries.push({
        path,
        kind: "link",
        mode: 0,
        mtime: 0,
        bytes: 0,
        content: Deno.readLinkSync(source),
      });
    } else if (info.isDirectory) {
      // A directory's time of change is not stored: unpacking changes it.
      this.#entries.push({ path, kind: "directory", ...of, mtime: 0, bytes: 0, content: "" });
      const entries = entriesOf(source, below).sort((a, b) => a.name < b.name ? -1 : 1);
      for (const { name, isFile } of entries) {
        const inner = `${path}/${name}`;
        if (path === "directory/.mosaic" && !(isFile && CONTROL.test(name))) continue;
        if (!left.has(inner.slice("directory/".length))) {
          this.tree(`${source}/${name}`, inner, left, below);
        }
      }
    }
  }

  file(source: string, path: string, of: { mode: number; mtime: number }, below: string): void {
    using file = openRegular(source, below);
    if (file === undefined) return;
    const hash = sha256();
    const { size } = file.stat();
    const insert = this.#db.prepare("INSERT INTO chunks VALUES (?, ?, ?)");
    const entry = this.#entries.length;
    for (let at = 0, n = 0; at < size; n++) {
      const bytes = new Uint8Array(Math.min(CHUNK_BYTES, size - at));
      if (file.readSync(at, bytes) < bytes.length) {
        throw new MosaicError("unavailable", `${source} was shortened while it was read`, {
          hint: "Try again.",
        });
      }
      hash.update(bytes);
      insert.run(entry, n, zlib().zstdCompressSync(bytes) as Uint8Array);
      at += bytes.length;
      this.#onProgress({ name: path, unit: "bytes", done: at, total: size });
    }
    this.#entries.push({ path, kind: "file", ...of, bytes: size, content: hash.digest("hex") });
  }

  /** @returns the number of files */
  finish(runId: string): number {
    const entries = JSON.stringify(this.#entries);
    this.#db.prepare("INSERT INTO head VALUES (?, ?, ?, ?)").run(
      FORMAT,
      runId,
      entries,
      digestOf(runId + entries),
    );
    this.#db.exec("COMMIT");
    return this.#entries.filter(({ kind }) => kind === "file").length;
  }
}

function digestOf(text: string): string {
  return sha256().update(text).digest("hex");
}

/** Whether a file is of this kind, by its first bytes. */
export function isRunFile(path: string): boolean {
  try {
    // Opening a pipe would wait for its writer, and reading from it would take its bytes away.
    if (!Deno.statSync(path).isFile) return false;
    using file = Deno.openSync(path);
    const head = new Uint8Array(72);
    return (file.readSync(head) ?? 0) === head.length &&
      new TextDecoder().decode(head.subarray(0, 15)) === "SQLite format 3" &&
      new DataView(head.buffer).getUint32(68) === APPLICATION_ID;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** The first path that a run cannot have; nothing may be written elsewhere, nor through a link. */
function misplaced(entries: readonly Entry[], runId: string): string | undefined {
  const leaves = new Set(
    entries.filter(({ kind }) => kind !== "directory").map(({ path }) => path),
  );
  return entries.find(({ path, kind }) => {
    const parts = path.split("/");
    const [top, first, ...rest] = parts;
    if (path.length > MAX_PATH || parts.length > MAX_LEVELS) return true;
    const isPath = parts.every((part) =>
      part !== "" && part !== "." && part !== ".." && !part.includes("\0")
    );
    const isBelowLeaf = parts.some((_, i) => i > 0 && leaves.has(parts.slice(0, i).join("/")));
    if (!isPath || isBelowLeaf) return true;
    if (first === undefined) {
      return top === "directory" ? kind !== "directory" : !ROWS.test(top!) || kind !== "file";
    }
    if (top === "configs") return rest.length > 0 || kind !== "file" || !isConfigOf(runId, first);
    if (first !== ".mosaic") return top !== "directory";
    const isControl = rest.length === 0
      ? kind === "directory"
      : kind === "file" && CONTROL.test(rest.join("/"));
    return top !== "directory" || !isControl;
  })?.path;
}

export class RunFile implements Disposable {
  readonly runId: string;
  readonly files: number;
  readonly #path: string;
  readonly #db: DatabaseSync;
  readonly #entries: Entry[];

  /**
   * @throws MosaicError `invalid_argument` for a damaged file, `failed_precondition` for one of a
   * later version
   */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#db = this.#opened();
      const head = this.#db.prepare("SELECT run_id, entries, sha256 FROM head LIMIT 1")
        .get() as Record<string, string>;
      if (digestOf(`${head["run_id"]}${head["entries"]}`) !== head["sha256"]) {
        throw this.#damaged("its list of files");
      }
      this.runId = head["run_id"]!;
      this.#entries = listedFiles(head["entries"]!);
      const wrong = /^[0-9A-Z]{26}$/.test(this.runId)
        ? misplaced(this.#entries, this.runId)
        : this.runId;
      if (wrong !== undefined) {
        throw this.#damaged(
          "its list of files",
          new Error(`${JSON.stringify(wrong.slice(0, 200))} is no part of a run`),
        );
      }
      this.files = this.#entries.filter(({ kind }) => kind === "file").length;
    } catch (error) {
      throw error instanceof MosaicError ? error : this.#damaged("the file", error);
    }
  }

  #opened(): DatabaseSync {
    const path = this.#path;
    try {
      return openForeign(path, {
        length: LIST_BYTES,
        // Only single rows are read, by their keys.
        whole: false,
        create(own, version) {
          if (version > FORMAT) {
            throw new MosaicError(
              "failed_precondition",
              `${path} has format ${version}, this mosaic reads ${FORMAT}`,
              {
                hint: "Use the mosaic that wrote it, or a newer one.",
              },
            );
          }
          own.exec(TABLES);
        },
      });
    } catch (error) {
      throw error instanceof MosaicError && error.code !== "invalid_argument"
        ? error
        : this.#damaged("the file", error);
    }
  }

  #damaged(what: string, cause?: unknown): MosaicError {
    const why = cause === undefined ? "does not match its checksum" : messageOf(cause);
    return new MosaicError("invalid_argument", `${this.#path} is damaged: ${what} (${why})`, {
      hint: "Copy it again, or export the run again.",
      cause,
    });
  }

  /**
   * Writes everything below a new directory; zeros become holes.
   * @param most bytes of all files, without holes; undefined: by the file's size
   * @throws as the constructor, and MosaicError `resource_exhausted` beyond `most`; nothing is left
   * then
   */
  unpack(
    into: string,
    most = Math.max(UNPACKED.least, UNPACKED.ratio * Deno.statSync(this.#path).size),
    onProgress: OnProgress = () => {},
  ): void {
    try {
      writing(into, () => Deno.mkdirSync(into, { recursive: true, mode: 0o700 }));
      // Links last, so that nothing is written through one.
      const order = { directory: 0, file: 1, link: 2 };
      const entries = [...this.#entries.entries()].sort(([, a], [, b]) =>
        order[a.kind] - order[b.kind]
      );
      let left = most;
      const total = this.#entries.reduce((sum, { bytes }) => sum + bytes, 0);
      let done = 0;
      const onBytes = (bytes: number) =>
        onProgress({ name: this.#path, unit: "bytes", done: done += bytes, total });
      for (const [n, entry] of entries) {
        left -= this.#entry(n, entry, into, (bytes) => {
          if (bytes <= left) return;
          throw new MosaicError(
            "resource_exhausted",
            `${this.#path} unpacks to more than ${most} bytes, at ${entry.path}`,
            { hint: "If you trust who made it: mosaic import --max-unpacked BYTES." },
          );
        }, onBytes);
      }
      for (const { kind, path } of this.#entries) {
        if (kind === "file" && ROWS.test(path)) {
          this.#checkRows(`${into}/${path}`, path as ForeignRows);
        }
      }
      for (const { kind, path, mode } of this.#entries) {
        if (kind === "directory") Deno.chmodSync(`${into}/${path}`, mode & 0o777);
      }
    } catch (error) {
      Deno.removeSync(into, { recursive: true });
      throw error;
    }
  }

  #checkRows(file: string, path: ForeignRows): void {
    try {
      openForeignRows(file, path, { whole: true, writable: false }).close();
    } catch (error) {
      if (error instanceof MosaicError && error.code !== "invalid_argument") throw error;
      throw this.#damaged(path, error);
    }
  }

  /**
   * @param requireRoom called with the bytes of the entry before they are written
   * @param onBytes called with the bytes of each part, holes included
   * @returns the bytes, without holes
   */
  #entry(
    n: number,
    { path, kind, mode, mtime, bytes, content }: Entry,
    into: string,
    requireRoom: (bytes: number) => void,
    onBytes: (bytes: number) => void,
  ): number {
    const to = `${into}/${path}`;
    if (kind === "directory") {
      writing(to, () => Deno.mkdirSync(to, { recursive: true, mode: 0o700 }));
      return 0;
    }
    writing(to, () => Deno.mkdirSync(parentOf(to), { recursive: true, mode: 0o700 }));
    if (kind === "link") {
      writing(to, () => Deno.symlinkSync(content, to));
      return 0;
    }
    const hash = sha256();
    let stored = 0;
    writing(to, () => Deno.openSync(to, { write: true, createNew: true, mode: 0o600 }).close());
    using file = Deno.openSync(to, { write: true });
    for (let at = 0, i = 0; at < bytes; i++) {
      const chunk = this.#chunk(n, i, path);
      if (chunk.length !== Math.min(CHUNK_BYTES, bytes - at)) throw this.#damaged(path);
      hash.update(chunk);
      // A database is read as a whole; other files may have holes.
      const isHole = !ROWS.test(path) && isZero(chunk);
      if (!isHole) {
        requireRoom(stored += chunk.length);
        writing(to, () => {
          file.seekSync(at, Deno.SeekMode.Start);
          for (let done = 0; done < chunk.length;) done += file.writeSync(chunk.subarray(done));
        });
      }
      at += chunk.length;
      onBytes(chunk.length);
    }
    if (hash.digest("hex") !== content) throw this.#damaged(path);
    writing(to, () => file.truncateSync(bytes));
    Deno.chmodSync(to, mode & 0o777);
    Deno.utimeSync(to, new Date(mtime), new Date(mtime));
    return stored;
  }

  #chunk(entry: number, n: number, path: string): Uint8Array {
    try {
      const row = this.#db.prepare(
        "SELECT data FROM chunks WHERE entry = ? AND n = ? AND typeof(data) = 'blob' AND octet_length(data) <= ? LIMIT 1",
      ).get(entry, n, STORED_CHUNK_BYTES);
      if (row === undefined) throw new Error(`chunk ${n} is missing`);
      return zlib().zstdDecompressSync(row["data"] as Uint8Array, {
        maxOutputLength: CHUNK_BYTES,
      }) as Uint8Array;
    } catch (error) {
      throw this.#damaged(path, error);
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

function isZero(bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, ZEROS.subarray(0, bytes.length)) === 0;
}

/** @throws Error for a list that no mosaic has written */
function listedFiles(text: string): Entry[] {
  const list: unknown = JSON.parse(text);
  const isEntry = (one: Partial<Entry> | null) =>
    typeof one?.path === "string" && ["file", "directory", "link"].includes(one.kind!) &&
    typeof one.content === "string" &&
    [one.mode, one.mtime, one.bytes].every((number) => Number.isFinite(number) && number! >= 0);
  if (Array.isArray(list) && list.every(isEntry)) return list as Entry[];
  throw new Error("it is no list of files");
}
