/**
 * A log whose older part is packed (docs/explanation/architecture.md, "What becomes of a journal"):
 * `NAME.zst` beside the log has its bytes from 0 on, compressed in chunks, and the log itself is a
 * hole there. Readers see one file of one length. Each chunk is a zstd frame with a checksum after
 * a skippable frame that describes it, so `zstdcat` prints everything. Damage affects only its
 * chunk. When the log is complete, a chunk may be thinned: then its skippable frame contains data
 * from which a reader's `Render` restores the bytes.
 */
import { zlib } from "../base/node_modules.ts";
import { MosaicError } from "../base/errors.ts";
import { headerLength, JOURNAL_HEADER } from "./journal_header.ts";
import { parentOf, syncDirectory } from "../os/files/files.ts";
import { openRegularLog, type RegularFile } from "../os/files/untrusted.ts";
import {
  createFile,
  openLogForWriting,
  removeFile,
  renameFile,
} from "../os/files/untrusted_changes.ts";

export const CHUNK_BYTES = 1 << 20;
/** A larger chunk is not mosaic's. */
const MAX_CHUNK_BYTES = 16 << 20;
/**
 * Bound on the chunks of one log (128 GiB of it; the rest is not packed), and on remembered chunks
 * of all logs.
 */
const MAX_CHUNKS = 1 << 17;

/**
 * Magic number of a skippable frame and its length; the tag; CRC-32 of what follows: from (64
 * bits), length, packed length (32 bits each).
 */
const HEADER_BYTES = 32;
const MAGIC = Uint8Array.of(0x5c, 0x2a, 0x4d, 0x18);
const TAG_AT = 8;
const [WHOLE, THIN] = ["mlog", "mref"] as const;
const CRC_AT = TAG_AT + WHOLE.length;
const FIELDS_AT = CRC_AT + 4;
/**
 * Bytes read at once in the search for the next chunk after a damaged header, and for the end of a
 * hole.
 */
const SEARCHED_BYTES = 2 * MAX_CHUNK_BYTES;
/**
 * Holes in a log begin and end at multiples of this, and the log's first such block is never in
 * one.
 */
export const HOLE_BYTES = 4096;

interface Chunk {
  /** Bytes of the log. */
  from: number;
  to: number;
  /** Its position in the packed file; undefined if it cannot be read any more. */
  packed: { at: number; length: number; isThin: boolean } | undefined;
}

/** Restores the bytes of a thinned chunk. @throws if that is impossible */
export type Render = (thin: Uint8Array) => Uint8Array;

interface Index {
  identity: string;
  /** End of the whole chunks in the packed file. */
  scanned: number;
  /** Size and time of the file when it was read. */
  seen: string;
  chunks: Chunk[];
  /**
   * The log has a hole after the last chunk: its packed bytes are damaged or missing, and the
   * chunks' borders are unknown.
   */
  lost: Chunk | undefined;
}

function emptyIndex(identity = ""): Index {
  return { identity, scanned: 0, seen: "", chunks: [], lost: undefined };
}

/** If packing has already reduced a log below this fraction, thinning costs more than it saves. */
const WORTH_THINNING = 1 / 7;

/** Bytes compared at the beginnings of two logs. */
const COMPARED_BYTES = 256;

export function packedPath(log: string): string {
  return `${log}.zst`;
}

/** The chunk as it is appended to the file. @param from the log's offset of its first byte */
export async function packChunk(from: number, bytes: Uint8Array): Promise<Uint8Array> {
  const packed = await new Promise<Uint8Array>((resolve, reject) => {
    zlib().zstdCompress(
      bytes,
      { params: parameters() },
      (error, result) => error ? reject(error) : resolve(result as Uint8Array),
    );
  });
  return framed(WHOLE, from, bytes.length, packed);
}

export function packChunkNow(from: number, bytes: Uint8Array): Uint8Array {
  return framed(
    WHOLE,
    from,
    bytes.length,
    zlib().zstdCompressSync(bytes, { params: parameters() }) as Uint8Array,
  );
}

function parameters(): Record<number, number> {
  const { ZSTD_c_compressionLevel, ZSTD_c_checksumFlag } = zlib().constants;
  return { [ZSTD_c_compressionLevel]: 1, [ZSTD_c_checksumFlag]: 1 };
}

function framed(tag: string, from: number, length: number, packed: Uint8Array): Uint8Array {
  const all = new Uint8Array(HEADER_BYTES + packed.length);
  all.set(MAGIC);
  all.set(new TextEncoder().encode(tag), TAG_AT);
  const view = new DataView(all.buffer);
  view.setUint32(MAGIC.length, frameBytes(tag, packed.length), true);
  view.setBigUint64(FIELDS_AT, BigInt(from), true);
  view.setUint32(FIELDS_AT + 8, length, true);
  view.setUint32(FIELDS_AT + 12, packed.length, true);
  view.setUint32(CRC_AT, zlib().crc32(all.subarray(FIELDS_AT, HEADER_BYTES)), true);
  all.set(packed, HEADER_BYTES);
  return all;
}

/** Length of the skippable frame, without its magic number and length. */
function frameBytes(tag: string, packed: number): number {
  return HEADER_BYTES - TAG_AT + (tag === THIN ? packed : 0);
}

/** The tag after a magic number; undefined if either is not mosaic's. */
function tagAt(bytes: Uint8Array, at: number): string | undefined {
  if (!MAGIC.every((byte, i) => byte === bytes[at + i])) return undefined;
  const tag = new TextDecoder().decode(bytes.subarray(at + TAG_AT, at + CRC_AT));
  return tag === WHOLE || tag === THIN ? tag : undefined;
}

/** The fields of a header; undefined if it is damaged, or not mosaic's. */
function fieldsOf(
  header: Uint8Array,
): { tag: string; from: number; length: number; packed: number } | undefined {
  const view = new DataView(header.buffer, header.byteOffset);
  const tag = tagAt(header, 0);
  const from = Number(view.getBigUint64(FIELDS_AT, true));
  const length = view.getUint32(FIELDS_AT + 8, true);
  const packed = view.getUint32(FIELDS_AT + 12, true);
  const isWhole = tag !== undefined &&
    view.getUint32(MAGIC.length, true) === frameBytes(tag, packed) &&
    view.getUint32(CRC_AT, true) === zlib().crc32(header.subarray(FIELDS_AT, HEADER_BYTES));
  // Incompressible data grows by less than 1/128.
  const isPossible = Number.isSafeInteger(from + length) && length > 0 &&
    length <= MAX_CHUNK_BYTES &&
    packed <= length + (length >> 7) + 1024;
  return isWhole && isPossible ? { tag, from, length, packed } : undefined;
}

/** The packed part of one log. */
export class PackedLog implements Disposable {
  readonly #log: string;
  readonly #path: string;
  readonly #render: Render | undefined;
  #file: RegularFile | undefined;
  #index = emptyIndex();
  /** Without bytes: the chunk is damaged. */
  #opened: { chunk: Chunk; bytes: Uint8Array | undefined } | undefined;

  /** Chunk lists of recently read logs. */
  static readonly #known = new Map<string, Index>();

  /** @param render undefined: no chunk can be thinned */
  constructor(log: string, render?: Render) {
    this.#log = log;
    this.#path = packedPath(log);
    this.#render = render;
  }

  /** Number of bytes of the log, from 0 on, that are packed (intact or damaged). */
  end(): number {
    this.#refresh();
    return this.#index.lost?.to ?? endOf(this.#index);
  }

  /**
   * Its last chunks are damaged and their borders unknown, or the whole file was removed: the next
   * chunk would be the log's hole.
   */
  hasLostEnd(): boolean {
    this.#refresh();
    return this.#index.lost !== undefined || this.#wasRemoved();
  }

  /** There is no file, but the log has a hole, as packing makes them. */
  #wasRemoved(): boolean {
    using log = this.#file === undefined ? openIfLog(this.#log) : undefined;
    if (log === undefined) return false;
    const { size, blocks } = log.stat();
    // A worker may print NULs, and a file system may compress what it stores: neither alone is
    // proof.
    return blocks * 512 < size && endOfHole(log, 0) > 0;
  }

  /** Length of the file up to the end of its last whole chunk; the rest is torn. */
  wholeBytes(): number {
    this.#refresh();
    return this.#index.scanned;
  }

  /**
   * Reads at a position below `end()`. @returns bytes read: at least one, at most up to the end of
   * the position's chunk
   */
  read(position: number, into: Uint8Array): number {
    const chunk = this.#chunkAt(position);
    if (this.#opened?.chunk !== chunk) this.#opened = { chunk, bytes: this.#bytesOf(chunk) };
    const { bytes } = this.#opened;
    const offset = position - chunk.from;
    const part = into.subarray(0, Math.min(into.length, chunk.to - position));
    if (bytes !== undefined) part.set(bytes.subarray(offset, offset + part.length));
    else {
      // The length is kept, so that later offsets are unchanged; the rest is NUL, which displays as
      // nothing.
      const what = chunk.packed?.isThin
        ? "need steps that are damaged or not there"
        : "are damaged";
      const text = `\n[mosaic: ${chunk.to - chunk.from} bytes of the log ${what}: ${this.#path}]\n`;
      part.fill(0).set(new TextEncoder().encode(text).subarray(offset, offset + part.length));
    }
    return part.length;
  }

  /**
   * Replaces chunks by thinned ones. The log must not grow meanwhile; what `thin` uses elsewhere
   * must be on disk when `mayReplace` returns true.
   * @param thin called with every whole chunk, from the log's beginning
   * @returns bytes saved
   */
  async thin(
    thin: (bytes: Uint8Array) => Promise<Uint8Array | undefined>,
    mayReplace: () => Promise<boolean>,
  ): Promise<number> {
    this.#refresh();
    const chunks = this.#index.chunks.slice();
    // Damaged, or thinned before: unchanged.
    if (chunks.some(({ packed }) => packed === undefined || packed.isThin) || this.hasLostEnd()) {
      return 0;
    }
    if (this.wholeBytes() < WORTH_THINNING * this.end() || this.end() === 0) return 0;
    const temporary = `${this.#path}.thin.tmp`;
    removeFile(temporary);
    try {
      using file = createFile(temporary);
      let saved = 0;
      for (const { from, to, packed } of chunks) {
        const bytes = new Uint8Array(packed!.length);
        await this.#file!.read(packed!.at, bytes);
        const chunk = zlib().zstdDecompressSync(bytes, {
          maxOutputLength: to - from,
        }) as Uint8Array;
        const made = await thin(chunk);
        const isSmaller = made !== undefined && 2 * made.length < bytes.length;
        const frame = isSmaller
          ? framed(THIN, from, to - from, made)
          : framed(WHOLE, from, to - from, bytes);
        if (isSmaller) saved += bytes.length - made.length;
        for (let done = 0; done < frame.length;) done += await file.write(frame.subarray(done));
      }
      if (saved === 0) return 0;
      await file.syncData();
      if (!await mayReplace()) return 0;
      renameFile(temporary, this.#path);
      syncDirectory(parentOf(this.#path));
      return saved;
    } finally {
      removeFile(temporary);
    }
  }

  /** No more chunks of this log are packed. */
  isFull(): boolean {
    return this.#index.chunks.length >= MAX_CHUNKS;
  }

  /** The log was truncated to `to` bytes: removes packed chunks after it. */
  cut(to: number): void {
    if (this.end() <= to) return;
    const kept = this.#index.chunks.filter((chunk) => chunk.to <= to);
    const last = kept.findLast(({ packed }) => packed !== undefined);
    const from = last?.to ?? 0;
    const rest = new Uint8Array(to - from <= MAX_CHUNK_BYTES ? to - from : 0);
    for (let done = 0; done < rest.length;) done += this.read(from + done, rest.subarray(done));
    using file = openLogForWriting(this.#path);
    const at = last === undefined ? 0 : last.packed!.at + last.packed!.length;
    file.truncateSync(at);
    if (rest.length > 0) file.writeSync(at, packChunkNow(from, rest));
    PackedLog.#known.delete(this.#path);
    this.close();
    this.#index = emptyIndex();
  }

  #chunkAt(position: number): Chunk {
    const { chunks, lost } = this.#index;
    if (lost !== undefined && position >= lost.from) return lost;
    let [low, high] = [0, chunks.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (chunks[middle]!.to <= position) low = middle + 1;
      else high = middle;
    }
    return chunks[low]!;
  }

  #bytesOf({ from, to, packed }: Chunk): Uint8Array | undefined {
    if (packed === undefined) return undefined;
    try {
      const bytes = new Uint8Array(packed.length);
      this.#file!.readSync(packed.at, bytes);
      const found = packed.isThin
        ? this.#render!(bytes)
        : zlib().zstdDecompressSync(bytes, { maxOutputLength: to - from }) as Uint8Array;
      return found.length === to - from ? found : undefined;
    } catch {
      // Damaged: the reader gets a notice instead.
      return undefined;
    }
  }

  /** Lists chunks that were added. */
  #refresh(): void {
    this.#file ??= openRegularLog(this.#path);
    if (this.#file === undefined) return;
    const { dev, ino, size, mtimeMs, birthtimeMs } = this.#file.stat();
    // The inode of a removed file may be reused.
    const identity = `${dev}:${ino}:${birthtimeMs}`;
    if (this.#index.identity === "") this.#index = PackedLog.#known.get(this.#path) ?? this.#index;
    if (this.#index.identity !== identity || size < this.#index.scanned) {
      this.#index = emptyIndex(identity);
    }
    const seen = `${size}:${mtimeMs}`;
    if (this.#index.seen === seen) return;
    this.#index.seen = seen;
    scan(this.#file, size, this.#index);
    this.#index.lost = this.#lostEnd();
    // Bytes that were packed meanwhile may be a hole by now, and are in the packed file.
    if (this.#index.lost !== undefined && this.#file.stat().size !== size) return this.#refresh();
    this.#remember();
  }

  #lostEnd(): Chunk | undefined {
    const { chunks } = this.#index;
    using log = chunks.length < MAX_CHUNKS ? openIfLog(this.#log) : undefined;
    if (log === undefined) return undefined;
    const from = endOf(this.#index);
    const to = endOfHole(log, from);
    return to > from && this.#isHole(log, chunks.at(-1))
      ? { from, to, packed: undefined }
      : undefined;
  }

  /**
   * A worker may print NULs, so NULs alone are no proof. If there is a hole, it also includes the
   * last packed bytes, which otherwise stay in the log.
   */
  #isHole(log: RegularFile, last: Chunk | undefined): boolean {
    const packed = last && last.to > HOLE_BYTES
      ? this.#bytesOf(last)?.subarray(-HOLE_BYTES)
      : undefined;
    if (packed === undefined) return true;
    const own = new Uint8Array(packed.length);
    log.readSync(last!.to - own.length, own);
    return !own.every((byte, i) => byte === packed[i]);
  }

  #remember(): void {
    const known = PackedLog.#known;
    known.delete(this.#path);
    let chunks = this.#index.chunks.length;
    for (const index of known.values()) chunks += index.chunks.length;
    for (const [path, index] of known) {
      if (chunks <= MAX_CHUNKS) break;
      known.delete(path);
      chunks -= index.chunks.length;
    }
    if (this.#index.chunks.length > 0) known.set(this.#path, this.#index);
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
    this.#opened = undefined;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

function endOf({ chunks }: Index): number {
  return chunks.at(-1)?.to ?? 0;
}

/** The log itself; undefined if there is none, or something else is in its place. */
function openIfLog(log: string): RegularFile | undefined {
  try {
    return openRegularLog(log);
  } catch (error) {
    if (error instanceof MosaicError) return undefined;
    throw error;
  }
}

/**
 * The end of the NULs that a log has from an offset on, if these may be a hole; otherwise the
 * offset.
 */
function endOfHole(file: RegularFile, from: number): number {
  const buffer = new Uint8Array(64 << 10);
  const begin = Math.max(from, HOLE_BYTES);
  for (let at = begin; at < begin + SEARCHED_BYTES;) {
    const read = file.readSync(at, buffer);
    const text = buffer.subarray(0, read).findIndex((byte) => byte !== 0);
    if (text >= 0) {
      const end = Math.floor((at + text) / HOLE_BYTES) * HOLE_BYTES;
      return end > begin ? end : from;
    }
    // The end of a log is never in a hole.
    if (read < buffer.length) return from;
    at += read;
  }
  return begin + SEARCHED_BYTES;
}

function scan(file: RegularFile, size: number, index: Index): void {
  const header = new Uint8Array(HEADER_BYTES);
  for (let at = index.scanned; at + HEADER_BYTES <= size && index.chunks.length < MAX_CHUNKS;) {
    file.readSync(at, header);
    const fields = fieldsOf(header);
    const before = index.chunks.at(-1)?.to ?? 0;
    // Chunks are contiguous; only damage leaves a gap.
    if (
      fields !== undefined &&
      (at === index.scanned ? fields.from === before : fields.from >= before)
    ) {
      const { tag, from, length, packed } = fields;
      const end = at + HEADER_BYTES + packed;
      if (end > size) return;
      if (from > before) index.chunks.push({ from: before, to: from, packed: undefined });
      const isThin = tag === THIN;
      index.chunks.push({
        from,
        to: from + length,
        packed: { at: at + HEADER_BYTES, length: packed, isThin },
      });
      index.scanned = at = end;
      continue;
    }
    const next = findMark(file, at + 1, Math.min(size, index.scanned + SEARCHED_BYTES));
    if (next === undefined) return;
    at = next;
  }
}

/** Position of the next possible chunk after a damaged header. */
function findMark(file: RegularFile, from: number, to: number): number | undefined {
  const buffer = new Uint8Array(64 << 10);
  for (let at = from; at < to;) {
    const read = file.readSync(at, buffer);
    const bytes = buffer.subarray(0, read);
    for (let i = bytes.indexOf(MAGIC[0]!); i >= 0; i = bytes.indexOf(MAGIC[0]!, i + 1)) {
      if (i + CRC_AT <= read && tagAt(bytes, i) !== undefined) return at + i;
    }
    if (read <= CRC_AT) return undefined;
    at += read - CRC_AT;
  }
  return undefined;
}

/** A run's log as one file, whatever part of it is packed. */
export class LogFile implements Disposable {
  /** Undefined: only the packed part exists. */
  readonly #file: RegularFile | undefined;
  readonly #packed: PackedLog;
  #packedEnd = 0;

  constructor(file: RegularFile | undefined, packed: PackedLog) {
    this.#file = file;
    this.#packed = packed;
    this.#refreshPacked();
  }

  get size(): number {
    return Math.max(this.#file?.stat().size ?? 0, this.#packedEnd);
  }

  /** Offset of the first byte, after the journal's header if there is one. */
  begin(): number {
    const bytes = new Uint8Array(JOURNAL_HEADER.length);
    return headerLength(bytes.subarray(0, this.readSync(0, bytes)));
  }

  /** Reads from `position` until `into` is full or the log ends. @returns bytes read */
  readSync(position: number, into: Uint8Array): number {
    let filled = this.#readPacked(position, into);
    const begin = filled;
    if (filled < into.length) {
      filled += this.#file?.readSync(position + filled, into.subarray(filled)) ?? 0;
    }
    return this.#readAgain(position, into, begin, filled);
  }

  /** Asynchronous `readSync`. */
  async read(position: number, into: Uint8Array): Promise<number> {
    let filled = this.#readPacked(position, into);
    const begin = filled;
    if (filled < into.length) {
      filled += await this.#file?.read(position + filled, into.subarray(filled)) ?? 0;
    }
    return this.#readAgain(position, into, begin, filled);
  }

  #readPacked(position: number, into: Uint8Array): number {
    let filled = 0;
    while (filled < into.length && position + filled < this.#packedEnd) {
      filled += this.#packed.read(position + filled, into.subarray(filled));
    }
    return filled;
  }

  /** Bytes that were packed during the read may have been a hole. */
  #readAgain(position: number, into: Uint8Array, begin: number, filled: number): number {
    this.#refreshPacked();
    if (position + begin < this.#packedEnd) {
      this.#readPacked(position + begin, into.subarray(begin, filled));
    }
    return filled;
  }

  /**
   * If a log is shorter than its packed part it was truncated, unless its beginning is unchanged:
   * then it is a copy made while more was packed.
   */
  #refreshPacked(): void {
    const end = this.#packed.end();
    const size = this.#file?.stat().size ?? end;
    this.#packedEnd = end > size && !this.#beginsAlike(size) ? 0 : end;
  }

  #beginsAlike(size: number): boolean {
    const [own, packed] = [
      new Uint8Array(Math.min(size, COMPARED_BYTES)),
      new Uint8Array(COMPARED_BYTES),
    ];
    if (size === 0 || this.#file?.readSync(0, own) !== own.length) return false;
    const read = this.#packed.read(0, packed);
    return read >= own.length && own.every((byte, i) => byte === packed[i]);
  }

  close(): void {
    this.#file?.close();
    this.#packed.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Opens a log of a run, undefined if there is none; neither the file nor its directory may be a
 * link.
 */
export function openLog(path: string, render?: Render): LogFile | undefined {
  const file = openRegularLog(path);
  const packed = new PackedLog(path, render);
  if (file === undefined && packed.end() === 0) return packed.close() as undefined;
  return new LogFile(file, packed);
}
