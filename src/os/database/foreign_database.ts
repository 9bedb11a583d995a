/**
 * Opens a database that somebody else has made, so that reading it costs no more than its size
 * allows: it must have exactly the tables that mosaic itself would create, so nothing in it is run
 * (views, triggers, virtual tables, generated columns, checks, defaults), and each of its pages
 * must belong to one place, so that no search of it goes on for ever.
 * https://www.sqlite.org/security.html lists the settings.
 */
import { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../../base/errors.ts";

export interface ForeignOptions {
  /**
   * Creates the tables of a version (`user_version`) in an empty database. @throws for an unknown
   * version
   */
  create: (db: DatabaseSync, version: number) => void;
  /** Longest text or row, bytes. */
  length: number;
  /**
   * Compares all pages: takes as long as reading the file. Otherwise the caller bounds what it
   * reads.
   */
  whole: boolean;
  writable?: boolean;
}

/**
 * @throws MosaicError `invalid_argument` for a database that is not one of mosaic's; SQLite's error
 * for a damaged one
 */
export function openForeign(
  path: string,
  { create, length, whole, writable = false }: ForeignOptions,
): DatabaseSync {
  requireTree(path);
  const db = new DatabaseSync(path, { readOnly: !writable });
  try {
    db.limits.length = length;
    db.enableDefensive(true);
    db.exec(
      "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA ignore_check_constraints = ON",
    );
    const { user_version: version } = db.prepare("PRAGMA user_version").get() as {
      user_version: number;
    };
    using own = new DatabaseSync(":memory:");
    create(own, version);
    const [expected, found] = [schemaOf(own), schemaOf(db)];
    const strange = [...found].find(([name, sql]) => expected.get(name) !== sql) ??
      [...expected].find(([name]) => !found.has(name));
    if (strange !== undefined) {
      throw new MosaicError(
        "invalid_argument",
        `${path} has other tables than mosaic makes: ${strange[0].slice(0, 200)}`,
      );
    }
    const check = whole
      ? String(Object.values(db.prepare("PRAGMA quick_check(1)").get()!)[0])
      : "ok";
    if (check !== "ok") throw new MosaicError("invalid_argument", `${path} is damaged: ${check}`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** What each table, index and view is, by type and name. */
function schemaOf(db: DatabaseSync): Map<string, string> {
  const rows = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema").all();
  return new Map(
    rows.map((
      { type, name, tbl_name, sql },
    ) => [`${type} ${JSON.stringify(name)}`, `${tbl_name} ${sql}`]),
  );
}

/** https://www.sqlite.org/fileformat2.html: pages of the table of tables. */
const [HEADER_BYTES, INNER, LEAF] = [100, 0x05, 0x0d];
const MOST_PAGES = 64;
/** Bytes of a table's definition. */
const MOST_PAYLOAD = 32 << 10;

/**
 * SQLite reads the whole table of tables when it opens a file. A page that occurs in it twice would
 * be read again at each place, and a chain of pages as far as it says. @throws MosaicError
 * `invalid_argument`
 */
function requireTree(path: string): void {
  const broken = (why: string) =>
    new MosaicError("invalid_argument", `${path} is damaged: its table of tables ${why}`);
  using file = Deno.openSync(path, { read: true });
  const header = new Uint8Array(HEADER_BYTES);
  const isDatabase = file.readSync(header) === HEADER_BYTES &&
    new TextDecoder().decode(header.subarray(0, 15)) === "SQLite format 3";
  if (!isDatabase) throw broken("is missing");
  const size = new DataView(header.buffer).getUint16(16);
  const pageBytes = size === 1 ? 1 << 16 : size;
  if (pageBytes < 512) throw broken(`has pages of ${pageBytes} bytes`);
  const seen = new Set<number>();
  const waiting = [1];
  const page = new Uint8Array(pageBytes);
  const view = new DataView(page.buffer);
  for (let number = waiting.pop(); number !== undefined; number = waiting.pop()) {
    if (seen.has(number) || seen.size === MOST_PAGES) throw broken("has a page twice, or too many");
    seen.add(number);
    file.seekSync((number - 1) * pageBytes, Deno.SeekMode.Start);
    if (file.readSync(page) !== pageBytes) {
      throw broken(`names page ${number}, which the file does not have`);
    }
    const at = number === 1 ? HEADER_BYTES : 0;
    const cells = view.getUint16(at + 3);
    const from = at + (page[at] === INNER ? 12 : 8);
    if ((page[at] !== INNER && page[at] !== LEAF) || from + 2 * cells > pageBytes) {
      throw broken(`has the page ${number}`);
    }
    for (let i = 0; i < cells; i++) {
      const cell = view.getUint16(from + 2 * i);
      if (cell + 4 > pageBytes) throw broken(`has the page ${number}`);
      if (page[at] === INNER) waiting.push(view.getUint32(cell));
      else if (varint(page, cell) > MOST_PAYLOAD) throw broken("has an entry that is too long");
    }
    if (page[at] === INNER) waiting.push(view.getUint32(at + 8));
  }
}

/** A number of up to nine bytes; only its size matters here. */
function varint(bytes: Uint8Array, at: number): number {
  let value = 0;
  for (let i = 0; i < 9; i++) {
    const byte = bytes[at + i] ?? 0;
    value = value * 128 + (byte & 127);
    if (byte < 128) break;
  }
  return value;
}
