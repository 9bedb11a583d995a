/**
 * Checks a database's list of free pages. The integrity check of the runtime's SQLite (3.53) does
 * not: damage there is found only when a page is taken from it, and from then on nothing can be
 * stored.
 */
import type { DatabaseSync } from "node:sqlite";

/**
 * https://www.sqlite.org/fileformat2.html and walformat.html: the database header, trunk pages, the
 * log, and the log's index.
 */
const FIRST_TRUNK = 32;
const FREE_PAGES = 36;
const RESERVED_BYTES = 20;
/** Not 0 if the database has pages that say what each other page is for ("pointer maps"). */
const LARGEST_ROOT = 52;
const MAP_ENTRY_BYTES = 5;
const IS_FREE = 2;
const LOCK_BYTE = 1 << 30;
const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const WAL_MAGIC = 0x377f0682;
const INDEX_VERSION = 3007000;
const LAST_FRAME = 16;
const INDEX_HEADER_BYTES = 48;
const COPIED_FRAMES = 96;

/**
 * @param used whether to compare pages in use, too, which reads all of them
 * @returns what is wrong, if anything is
 */
export function freeListDamage(path: string, db: DatabaseSync, used: boolean): string | undefined {
  // Creates the log's index if there is none yet.
  db.prepare(ANY).get();
  // Closed at the very end, because closing it releases the locks that this process has on it.
  using index = openIfThere(`${path}-shm`);
  const frames = begin(db, index);
  try {
    const pageBytes = Number(db.prepare("PRAGMA page_size").get()!.page_size);
    using pages = new Pages(path, pageBytes, frames);
    const free = new Set<number>();
    const wrong = walk(pages, Number(db.prepare("PRAGMA page_count").get()!.page_count), free);
    if (wrong !== undefined) return wrong;
    if (!used || free.size === 0) return undefined;
    const taken = db.prepare("SELECT pageno FROM dbstat").all().find(({ pageno }) =>
      free.has(Number(pageno))
    );
    return taken === undefined ? undefined : `list of free pages: page ${taken.pageno} is in use`;
  } finally {
    db.exec("COMMIT");
  }
}

const ANY = "SELECT count(*) FROM sqlite_master";

/**
 * Begins a read transaction; meanwhile no checkpoint overwrites what it sees. Other processes (a
 * daemon) may commit.
 * @returns number of the log's frames that it sees: later frames are newer
 */
function begin(db: DatabaseSync, index: Deno.FsFile | undefined): number {
  for (;;) {
    const before = index && readAt(index, 0, COPIED_FRAMES + 4);
    db.exec("BEGIN");
    db.prepare(ANY).get();
    const now = index && readAt(index, 0, COPIED_FRAMES + 4);
    if (before === undefined || now === undefined) return Infinity;
    if (sameStart(before, now, INDEX_HEADER_BYTES)) {
      const littleEndian = now.getUint32(0, true) === INDEX_VERSION;
      const frames = now.getUint32(LAST_FRAME, littleEndian);
      // All of them are in the database file, too, and the log may begin again.
      return now.getUint32(COPIED_FRAMES, littleEndian) >= frames ? 0 : frames;
    }
    // Another process has committed in between.
    db.exec("COMMIT");
  }
}

function sameStart(a: DataView, b: DataView, bytes: number): boolean {
  for (let at = 0; at < bytes; at += 4) if (a.getUint32(at) !== b.getUint32(at)) return false;
  return true;
}

/** Adds the numbers of all free pages to `free`. */
function walk(pages: Pages, count: number, free: Set<number>): string | undefined {
  const header = pages.read(1);
  if (header === undefined) return undefined;
  const most = (pages.bytes - header.getUint8(RESERVED_BYTES)) / 4 - 2;
  const add = (page: number) => page >= 2 && page <= count && free.size < free.add(page).size;
  for (let trunk = header.getUint32(FIRST_TRUNK); trunk !== 0;) {
    if (!add(trunk)) return `list of free pages: ${trunk} is no page that can be free`;
    const page = pages.read(trunk);
    const leaves = page?.getUint32(4) ?? Infinity;
    if (page === undefined || leaves > most) {
      return `list of free pages: page ${trunk} cannot be read`;
    }
    for (let i = 0; i < leaves; i++) {
      const leaf = page.getUint32(8 + 4 * i);
      if (!add(leaf)) return `list of free pages: ${leaf} is no page that can be free`;
    }
    trunk = page.getUint32(0);
  }
  const recorded = header.getUint32(FREE_PAGES);
  if (free.size !== recorded) return `list of free pages: it has ${free.size} of ${recorded} pages`;
  if (header.getUint32(LARGEST_ROOT) === 0) return undefined;
  const mapped = Math.floor((pages.bytes - header.getUint8(RESERVED_BYTES)) / MAP_ENTRY_BYTES) + 1;
  const maps = new Map<number, DataView | undefined>();
  for (const page of free) {
    let at = Math.floor((page - 2) / mapped) * mapped + 2;
    if (at === Math.floor(LOCK_BYTE / pages.bytes) + 1) at++;
    if (!maps.has(at)) maps.set(at, pages.read(at));
    if (maps.get(at)?.getUint8(MAP_ENTRY_BYTES * (page - at - 1)) !== IS_FREE) {
      return `list of free pages: page ${at} does not know that page ${page} is free`;
    }
  }
}

function openIfThere(path: string): Deno.FsFile | undefined {
  try {
    return Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** A database's pages after a commit: in its log, or else in the file. */
class Pages implements Disposable {
  readonly bytes: number;
  readonly #file: Deno.FsFile | undefined;
  readonly #wal: Deno.FsFile | undefined;
  /** Position of a page's newest content in the log. */
  readonly #inWal: ReadonlyMap<number, number>;

  /** @param frames number of the log's frames up to that commit */
  constructor(path: string, bytes: number, frames: number) {
    this.bytes = bytes;
    this.#file = openIfThere(path);
    this.#wal = openIfThere(`${path}-wal`);
    this.#inWal = this.#wal === undefined ? new Map() : committed(this.#wal, bytes, frames);
  }

  read(page: number): DataView | undefined {
    const at = this.#inWal.get(page);
    return at === undefined
      ? this.#file && readAt(this.#file, (page - 1) * this.bytes, this.bytes)
      : readAt(this.#wal!, at, this.bytes);
  }

  [Symbol.dispose](): void {
    this.#file?.close();
    this.#wal?.close();
  }
}

/**
 * Positions of the pages in the log's first `most` committed frames; ends at the first frame with a
 * wrong checksum.
 */
function committed(wal: Deno.FsFile, pageBytes: number, most: number): Map<number, number> {
  const found = new Map<number, number>();
  const header = readAt(wal, 0, WAL_HEADER_BYTES);
  if (header === undefined || (header.getUint32(0) & ~1) >>> 0 !== WAL_MAGIC) return found;
  const littleEndian = (header.getUint32(0) & 1) === 0;
  let sum = checksum([0, 0], header, 0, 24, littleEndian);
  if (sum[0] !== header.getUint32(24) || sum[1] !== header.getUint32(28)) return found;
  const open = new Map<number, number>();
  for (let at = WAL_HEADER_BYTES, n = 1; n <= most; n++, at += FRAME_HEADER_BYTES + pageBytes) {
    const frame = readAt(wal, at, FRAME_HEADER_BYTES + pageBytes);
    if (frame === undefined) return found;
    if (
      frame.getUint32(8) !== header.getUint32(16) || frame.getUint32(12) !== header.getUint32(20)
    ) return found;
    sum = checksum(sum, frame, 0, 8, littleEndian);
    sum = checksum(sum, frame, FRAME_HEADER_BYTES, frame.byteLength, littleEndian);
    if (sum[0] !== frame.getUint32(16) || sum[1] !== frame.getUint32(20)) return found;
    open.set(frame.getUint32(0), at + FRAME_HEADER_BYTES);
    if (frame.getUint32(4) === 0) continue;
    for (const [page, where] of open) found.set(page, where);
    open.clear();
  }
  return found;
}

function checksum(
  [a, b]: readonly [number, number],
  view: DataView,
  from: number,
  to: number,
  littleEndian: boolean,
): [number, number] {
  for (let at = from; at < to; at += 8) {
    a = (a + view.getUint32(at, littleEndian) + b) >>> 0;
    b = (b + view.getUint32(at + 4, littleEndian) + a) >>> 0;
  }
  return [a, b];
}

/** @returns undefined if there is less */
function readAt(file: Deno.FsFile, at: number, length: number): DataView | undefined {
  const bytes = new Uint8Array(length);
  file.seekSync(at, Deno.SeekMode.Start);
  for (let done = 0; done < length;) {
    const n = file.readSync(bytes.subarray(done));
    if (n === null) return undefined;
    done += n;
  }
  return new DataView(bytes.buffer);
}
