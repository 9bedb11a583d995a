/**
 * Recovers a database whose first page is damaged. That page has the file's header and the top of
 * the table of tables, without which SQLite reads nothing, although all rows exist. The rest of
 * that table is in pages of its own: they are found by their content, and a new first page is
 * written that points to them.
 */
import { DatabaseSync } from "node:sqlite";

/** https://www.sqlite.org/fileformat2.html: pages of tables. */
const HEADER_BYTES = 100;
const [INNER, LEAF] = [0x05, 0x0d];
const [INNER_HEADER_BYTES, LEAF_HEADER_BYTES] = [12, 8];
/** Type, name, table, root page, SQL. */
const COLUMNS = 5;
const LEAST_PAGE_BYTES = 512;
const MOST_PAGE_BYTES = 1 << 16;
const READ_BYTES = 1 << 20;

interface SchemaPage {
  page: number;
  firstKey: number;
  lastKey: number;
  /** For each row: type, name, table and SQL as one text, and the root page. */
  entries: Map<string, number>;
}

/**
 * Writes a copy of the database, and of the log beside it, with a first page that is made anew.
 *
 * @param create makes the newest schema in an empty database
 * @returns false if the file's pages do not have exactly that schema
 */
export function copyWithFirstPage(
  path: string,
  copy: string,
  create: (db: DatabaseSync) => void,
): boolean {
  const { wanted, version } = schemaOf(create);
  for (let pageBytes = LEAST_PAGE_BYTES; pageBytes <= MOST_PAGE_BYTES; pageBytes *= 2) {
    const pages = cover(schemaPages(path, pageBytes, wanted), wanted.size);
    if (pages === undefined) continue;
    Deno.copyFileSync(path, copy);
    // Commits that were not moved into the file yet. (The page itself is not among them: then it
    // would be read from there.)
    copyIfThere(`${path}-wal`, `${copy}-wal`);
    using file = Deno.openSync(copy, { write: true });
    const count = Math.floor(Deno.statSync(path).size / pageBytes);
    for (let bytes = firstPage(pageBytes, count, version, pages); bytes.length > 0;) {
      bytes = bytes.subarray(file.writeSync(bytes));
    }
    return true;
  }
  return false;
}

function copyIfThere(from: string, to: string): void {
  try {
    Deno.copyFileSync(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function schemaOf(
  create: (db: DatabaseSync) => void,
): { wanted: ReadonlySet<string>; version: number } {
  using db = new DatabaseSync(":memory:");
  create(db);
  const rows = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_master").all();
  return {
    wanted: new Set(
      rows.map(({ type, name, tbl_name, sql }) => JSON.stringify([type, name, tbl_name, sql])),
    ),
    version: Number(db.prepare("PRAGMA user_version").get()!.user_version),
  };
}

/**
 * Pages that contain only rows of that schema, in the order of their keys. Some may be outdated.
 */
function schemaPages(path: string, pageBytes: number, wanted: ReadonlySet<string>): SchemaPage[] {
  const found: SchemaPage[] = [];
  using file = Deno.openSync(path);
  const buffer = new Uint8Array(Math.max(READ_BYTES, pageBytes));
  for (let next = 1, have = -1; have !== 0;) {
    have = 0;
    for (
      let n: number | null;
      have < buffer.length && (n = file.readSync(buffer.subarray(have))) !== null;
    ) have += n;
    for (let at = 0; at + pageBytes <= have; at += pageBytes, next++) {
      if (next === 1 || buffer[at] !== LEAF) continue;
      const page = schemaPage(next, buffer.subarray(at, at + pageBytes), wanted);
      if (page !== undefined) found.push(page);
    }
  }
  return found.sort((a, b) => a.firstKey - b.firstKey);
}

function schemaPage(
  page: number,
  bytes: Uint8Array,
  wanted: ReadonlySet<string>,
): SchemaPage | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const cells = view.getUint16(3);
  if (cells === 0 || LEAF_HEADER_BYTES + 2 * cells > bytes.length) return undefined;
  const entries = new Map<string, number>();
  const keys: number[] = [];
  for (let i = 0; i < cells; i++) {
    const row = schemaRow(bytes, view.getUint16(LEAF_HEADER_BYTES + 2 * i));
    if (row === undefined || !wanted.has(row.entry)) return undefined;
    entries.set(row.entry, row.root);
    keys.push(row.key);
  }
  return { page, firstKey: keys[0]!, lastKey: keys.at(-1)!, entries };
}

/** @returns undefined for any other row, and for one that extends beyond its page */
function schemaRow(
  page: Uint8Array,
  at: number,
): { key: number; entry: string; root: number } | undefined {
  const reader = new Varints(page, at);
  const length = reader.next();
  const key = reader.next();
  const begin = reader.at;
  if (begin + length > page.length) return undefined;
  const headerEnd = begin + reader.next();
  const types: number[] = [];
  while (reader.at < headerEnd && types.length <= COLUMNS) types.push(reader.next());
  if (types.length !== COLUMNS || reader.at !== headerEnd) return undefined;
  let from = headerEnd;
  const values = types.map((type) => {
    const bytes = page.subarray(from, from += bytesOf(type));
    if (type >= 13) return new TextDecoder().decode(bytes);
    // 0 and 1 have no bytes; other integers have as many as needed.
    return type === 0
      ? null
      : type >= 8
      ? type - 8
      : bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  });
  if (from !== begin + length) return undefined;
  const [type, name, table, root, sql] = values;
  return { key, entry: JSON.stringify([type, name, table, sql]), root: Number(root) };
}

function bytesOf(serialType: number): number {
  if (serialType >= 12) return Math.floor((serialType - 12) / 2);
  return [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0][serialType]!;
}

class Varints {
  at: number;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  /** NaN after the end: then nothing matches. */
  next(): number {
    for (let value = 0, i = 0; i < 8; i++) {
      const byte = this.#bytes[this.at++] ?? NaN;
      value = value * 128 + (byte & 0x7f);
      if (Number.isNaN(byte)) return NaN;
      if (byte < 0x80) return value;
    }
    return NaN;
  }
}

/**
 * Pages that together have each row once; undefined if there are none, or if outdated pages
 * contradict them.
 */
function cover(pages: readonly SchemaPage[], rows: number): SchemaPage[] | undefined {
  const roots = new Map<string, number>();
  for (const { entries } of pages) {
    for (const [entry, root] of entries) {
      if ((roots.get(entry) ?? root) !== root) return undefined;
      roots.set(entry, root);
    }
  }
  if (roots.size !== rows) return undefined;
  const from = (first: number, beyond: number, missing: number): SchemaPage[] | undefined => {
    if (missing === 0) return [];
    for (let i = first; i < pages.length; i++) {
      const page = pages[i]!;
      if (page.firstKey <= beyond || page.entries.size > missing) continue;
      const rest = from(i + 1, page.lastKey, missing - page.entries.size);
      if (rest !== undefined) return [page, ...rest];
    }
    return undefined;
  };
  return from(0, -Infinity, rows);
}

/** For a database in WAL mode without free pages: it is only read. */
function firstPage(
  pageBytes: number,
  count: number,
  version: number,
  children: readonly SchemaPage[],
): Uint8Array {
  const bytes = new Uint8Array(pageBytes);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode("SQLite format 3\0"));
  view.setUint16(16, pageBytes === MOST_PAGE_BYTES ? 1 : pageBytes);
  bytes.set([2, 2, 0, 64, 32, 32], 18);
  // The number of pages is valid if the two change counters are equal.
  view.setUint32(24, 1);
  view.setUint32(28, count);
  view.setUint32(92, 1);
  view.setUint32(40, 1);
  view.setUint32(44, 4);
  // UTF-8.
  view.setUint32(56, 1);
  view.setUint32(60, version);
  const left = children.slice(0, -1);
  bytes[HEADER_BYTES] = INNER;
  view.setUint16(HEADER_BYTES + 3, left.length);
  view.setUint32(HEADER_BYTES + 8, children.at(-1)!.page);
  let at = pageBytes;
  left.forEach(({ page, lastKey }, i) => {
    const cell = [...new Uint8Array(new Uint32Array([page]).buffer).reverse(), ...varint(lastKey)];
    bytes.set(cell, at -= cell.length);
    view.setUint16(HEADER_BYTES + INNER_HEADER_BYTES + 2 * i, at);
  });
  view.setUint16(HEADER_BYTES + 5, at);
  return bytes;
}

function varint(value: number): number[] {
  const bytes = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(128 + rest % 128);
  }
  return bytes;
}
