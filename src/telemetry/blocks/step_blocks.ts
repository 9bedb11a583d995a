/**
 * The table of blocks: writes them, reads steps through a bounded cache, and lists damaged or
 * missing ones.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { OPTIONAL_STEP_COLUMNS } from "../../gen/records/record_rows.ts";
import { NO_SOURCE, type Source, type StoredStep } from "../../gen/records/record_types.ts";
import { messageOf } from "../../base/errors.ts";
import { msOf } from "../../records/points.ts";
import { allRows, prepareArrays, SOURCE_SELECT } from "../tables/row_reader.ts";
import { type ChecksumOf, intact as isWhole, rowChecksum } from "../tables/row_checksums.ts";
import {
  type Block,
  type BlockSteps,
  CELL_COLUMNS,
  decodeBlock,
  encodeBlocks,
  intact,
  joinedSteps,
  MOST_ROWS,
} from "../../records/step_block.ts";
import { type CleanSteps, stepAt, stepTextLength } from "../../records/storable_steps.ts";

/** Decoded blocks of all runs: approximate memory of their texts and rows. */
const CACHE_BYTES = 16 << 20;
const ROW_BYTES = 120;
/** Blocks of fewer steps are merged, this many at a time. */
const SMALL = 1024;
const MANY = 8;
const MOST_MERGED = 64;
const SMALL_TEXT = 256 << 10;
const MOST_TEXT_MERGED = 1 << 20;
const NUMBERS = ["from_ns", "to_ns"];
const COLUMNS = [
  "first_seq",
  "n",
  "crc",
  ...NUMBERS,
  "unit_ns",
  ...CELL_COLUMNS,
  "hot",
  "raw",
  "body",
];
const SELECT = COLUMNS.map((name) => NUMBERS.includes(name) ? `CAST(${name} AS TEXT)` : name).join(
  ", ",
);

/** A step's seq, reward (null is NaN) and time in milliseconds. */
export type RewardPoint = [seq: number, reward: number | null, ms: number];

/** A block opened for readers, or the error why it could not be. */
interface Opened {
  first: number;
  last: number;
  bytes: number;
  steps: { columns: CleanSteps; attempt: number[] | number } | undefined;
}

export interface DamagedSteps {
  runId: string;
  first: number;
  last: number;
}

export class StepBlocks {
  readonly #insert: StatementSync;
  readonly #at: StatementSync;
  readonly #after: StatementSync;
  readonly #block: StatementSync;
  readonly #blocks: StatementSync;
  readonly #sealed: StatementSync;
  readonly #newest: StatementSync;
  readonly #delete: StatementSync;
  readonly #tail: StatementSync;
  readonly #tailSum: ChecksumOf;
  readonly #deleteTail: StatementSync;
  readonly #rowPoints: StatementSync;
  readonly #source: StatementSync;
  /** By run and first seq, least recently used first. */
  readonly #cache = new Map<string, Opened>();
  #bytes = 0;

  constructor(
    db: DatabaseSync,
    private readonly damaged: (runKey: number, first: number, last: number, why: string) => void,
  ) {
    const places = ["run_key", ...COLUMNS].map(() => "?").join(", ");
    this.#insert = db.prepare(
      `INSERT INTO step_blocks (run_key, ${COLUMNS.join(", ")}) VALUES (${places})`,
    );
    const key = "SELECT first_seq, n FROM step_blocks WHERE run_key = ?";
    this.#at = prepareArrays(db, `${key} AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1`);
    this.#after = prepareArrays(db, `${key} AND first_seq > ? ORDER BY first_seq LIMIT 1`);
    this.#block = prepareArrays(
      db,
      `SELECT ${SELECT} FROM step_blocks WHERE run_key = ? AND first_seq = ?`,
    );
    this.#blocks = prepareArrays(
      db,
      `SELECT ${SELECT} FROM step_blocks WHERE run_key = ? AND first_seq BETWEEN ? AND ? ORDER BY first_seq`,
    );
    this.#sealed = prepareArrays(db, `${key} ORDER BY first_seq DESC LIMIT 1`);
    this.#newest = prepareArrays(
      db,
      `SELECT first_seq, n, raw FROM step_blocks WHERE run_key = ? AND first_seq < ? ORDER BY first_seq DESC
        LIMIT ${MOST_MERGED}`,
    );
    this.#delete = db.prepare("DELETE FROM step_blocks WHERE run_key = ? AND first_seq = ?");
    const columns = OPTIONAL_STEP_COLUMNS.map(({ column }) => column).join(", ");
    this.#tail = prepareArrays(
      db,
      `SELECT seq, attempt, source, CAST(ts_ns AS TEXT), ${columns}, crc FROM steps WHERE run_key = ? AND seq > ?
        ORDER BY seq LIMIT ?`,
    );
    const names = [
      "seq",
      "attempt",
      "source",
      "ts_ns",
      ...OPTIONAL_STEP_COLUMNS.map(({ column }) => column),
    ];
    this.#tailSum = rowChecksum(db, "steps", names);
    this.#source = db.prepare(SOURCE_SELECT);
    this.#rowPoints = prepareArrays(
      db,
      "SELECT seq, reward, ts_ns / 1000000 FROM steps WHERE run_key = ? AND seq BETWEEN ? AND ? ORDER BY seq",
    );
    this.#deleteTail = db.prepare("DELETE FROM steps WHERE run_key = ? AND seq > ? AND seq <= ?");
  }

  /** The last seq that is in a block; later steps are rows. */
  sealedTo(runKey: number): number {
    const [last] = allRows(this.#sealed, runKey) as [number, number][];
    return last === undefined ? 0 : last[0] + last[1] - 1;
  }

  /** @returns the last seq that was written */
  write(runKey: number, first: number, steps: BlockSteps): number {
    for (const block of encodeBlocks(first, steps)) this.put(runKey, block);
    return first + steps.n - 1;
  }

  put(runKey: number, block: Block): void {
    this.#insert.run(runKey, ...valuesOf(block));
  }

  /**
   * The newest blocks before a seq that should be merged: many small ones, or as many as fit in
   * one. So a step is rewritten about three times at most, however small the batches were.
   */
  smallOnes(runKey: number, before: number): number[] {
    const firsts: number[] = [];
    let steps = 0;
    let bytes = 0;
    for (
      const [first, n, raw] of allRows(this.#newest, runKey, before) as [number, number, number][]
    ) {
      if (n >= SMALL || raw > SMALL_TEXT || (firsts.length > 0 && first + n !== firsts[0])) break;
      steps += n;
      bytes += raw;
      if (steps > MOST_ROWS || bytes > MOST_TEXT_MERGED) return firsts;
      firsts.unshift(first);
    }
    return firsts.length >= MANY ? firsts : [];
  }

  /**
   * Returns the steps of a range and removes their blocks: they will be written again in a larger
   * one. Undefined, and nothing is removed, if blocks do not contain exactly these steps, or one is
   * damaged.
   */
  take(runKey: number, from: number, to: number): BlockSteps[] | undefined {
    const blocks = allRows(this.#blocks, runKey, from, to).map(blockOf);
    let next = from;
    for (const { first, n } of blocks) if (first === next) next += n;
    if (next !== to + 1 || !blocks.every(intact)) return undefined;
    const steps = blocks.map(decodeBlock);
    for (const { first } of blocks) this.#remove(runKey, first);
    return steps;
  }

  /** Whether a block is intact, without reporting damage. Decompresses nothing. */
  isWhole(runKey: number, first: number): boolean {
    let why = "its checksum does not match";
    let block: Block | undefined;
    try {
      [block] = allRows(this.#block, runKey, first).map(blockOf);
      if (block !== undefined && intact(block)) return true;
    } catch (error) {
      why = messageOf(error);
    }
    this.damaged(runKey, first, first + Math.max(1, block?.n ?? 1) - 1, why);
    return false;
  }

  /**
   * Merges consecutive blocks; false if the result would be too large. @throws Error if one is
   * damaged
   */
  merge(runKey: number, firsts: readonly number[]): boolean {
    const blocks = firsts.map((first) => blockOf(allRows(this.#block, runKey, first)[0]!));
    const [one, ...others] = encodeBlocks(firsts[0]!, joinedSteps(blocks.map(decodeBlock)));
    if (one === undefined || others.length > 0) return false;
    for (const first of firsts) this.#remove(runKey, first);
    this.put(runKey, one);
    return true;
  }

  #remove(runKey: number, first: number): void {
    this.#delete.run(runKey, first);
    this.#forgetOpen(`${runKey}:${first}`);
  }

  /** The contiguous rows after `sealed`, up to a maximum. A damaged row counts as missing. */
  tail(runKey: number, sealed: number, most: number): (BlockSteps & { first: number }) | undefined {
    const rows = (allRows(this.#tail, runKey, sealed, most) as SQLInputValue[][]).filter((row) => {
      if (isWhole(this.#tailSum, row, row.at(-1))) return true;
      const seq = Number(row[0]);
      this.damaged(runKey, seq, seq, "the row's checksum does not match");
      return false;
    });
    if (rows.length === 0) return undefined;
    const first = rows[0]![0] as number;
    const gap = rows.findIndex((row, i) => row[0] !== first + i);
    if (gap > 0) rows.length = gap;
    const steps: BlockSteps & { first: number } = {
      first,
      n: rows.length,
      attempt: rows.map((row) => row[1] as number),
      source: rows.map((row) => row[2] as number),
      tsNs: rows.map((row) => row[3] as string),
    };
    OPTIONAL_STEP_COLUMNS.forEach(({ key, real }, c) => {
      const absent = real ? NaN : "";
      steps[key] = rows.map((row) => row[4 + c] ?? absent) as number[] | string[];
    });
    return steps;
  }

  /** Removes rows that are in a block now. */
  removeTail(runKey: number, after: number, to: number): void {
    this.#deleteTail.run(runKey, after, to);
  }

  /** Steps after `since` that are in blocks, up to a maximum, without those of a damaged block. */
  read(
    runKey: number,
    since: number,
    limit: number,
    maxLength: number,
  ): { rows: StoredStep[]; length: number } {
    const rows: StoredStep[] = [];
    let length = 0;
    for (let at = since; rows.length < limit;) {
      const opened = this.#openAfter(runKey, at);
      if (opened === undefined) break;
      const { first, last, steps } = opened;
      if (steps !== undefined) {
        const { columns, attempt } = steps;
        for (let i = Math.max(0, at + 1 - first); i < columns.n && rows.length < limit; i++) {
          length += stepTextLength(columns, i);
          if (length > maxLength && rows.length > 0) return { rows, length };
          rows.push(
            stepAt(columns, i, first + i, typeof attempt === "number" ? attempt : attempt[i]!),
          );
        }
      }
      at = last;
    }
    return { rows, length };
  }

  /** Points of the series `reward`, ascending: those of blocks, then rows. */
  rewards(runKey: number, first: number, last: number): RewardPoint[] {
    const points: RewardPoint[] = [];
    for (let at = first - 1; at < last;) {
      const opened = this.#openAfter(runKey, at);
      if (opened === undefined || opened.first > last) break;
      const { columns } = opened.steps ?? {};
      for (
        let seq = Math.max(at + 1, opened.first);
        columns !== undefined && seq <= Math.min(last, opened.last);
        seq++
      ) {
        const i = seq - opened.first;
        points.push([seq, columns.reward?.[i] ?? 0, msOf(columns.tsNs[i]!)]);
      }
      at = opened.last;
    }
    return [...points, ...allRows(this.#rowPoints, runKey, first, last) as RewardPoint[]];
  }

  /** Drops a run's open blocks from the cache: its key may be reused. */
  forget(runKey: number): void {
    for (const key of this.#cache.keys()) if (key.startsWith(`${runKey}:`)) this.#forgetOpen(key);
  }

  #forgetOpen(key: string): void {
    this.#bytes -= this.#cache.get(key)?.bytes ?? 0;
    this.#cache.delete(key);
  }

  #sourceOf(runKey: number, source: number): Source {
    return (this.#source.get(runKey, source) as unknown as Source | undefined) ?? NO_SOURCE;
  }

  /** The block with the seq after `at`, or the first one after it. */
  #openAfter(runKey: number, at: number): Opened | undefined {
    let [found] = allRows(this.#at, runKey, at + 1) as [number, number][];
    if (found === undefined || found[0] + found[1] - 1 <= at) {
      [found] = allRows(this.#after, runKey, at) as [number, number][];
      if (found === undefined) return undefined;
    }
    const key = `${runKey}:${found[0]}`;
    let opened = this.#cache.get(key);
    if (opened === undefined) {
      opened = this.#open(runKey, found[0], found[1]);
      this.#bytes += opened.bytes;
    } else {
      this.#cache.delete(key);
    }
    this.#cache.set(key, opened);
    for (const [oldest, { bytes }] of this.#cache) {
      if (this.#bytes <= CACHE_BYTES || this.#cache.size === 1) break;
      this.#cache.delete(oldest);
      this.#bytes -= bytes;
    }
    return opened;
  }

  #open(runKey: number, first: number, n: number): Opened {
    const last = first + n - 1;
    try {
      const { attempt, source, ...columns } = decodeBlock(
        blockOf(allRows(this.#block, runKey, first)[0]!),
      );
      const sources = new Map([source].flat().map((one) => [one, this.#sourceOf(runKey, one)]));
      const label = (key: keyof Source) =>
        typeof source === "number"
          ? sources.get(source)![key]
          : source.map((one) => sources.get(one)![key]);
      const steps = {
        ...columns,
        ...{ agentId: label("agentId"), workerId: label("workerId") },
        ...{ policyLabel: label("policyLabel"), backend: label("backend") },
      } as CleanSteps;
      let bytes = n * ROW_BYTES;
      for (let i = 0; i < n; i++) bytes += stepTextLength(steps, i);
      return { first, last, bytes, steps: { columns: steps, attempt } };
    } catch (error) {
      this.damaged(runKey, first, last, messageOf(error));
      return { first, last, bytes: 0, steps: undefined };
    }
  }
}

/**
 * Ranges of steps of all runs that are in a damaged block, or missing. Reads every block;
 * decompresses none.
 */
export function* damagedSteps(db: DatabaseSync): Generator<DamagedSteps> {
  const runs = allRows(prepareArrays(
    db,
    "SELECT run_key, run_id, first_step, steps FROM telemetry_runs WHERE deleting = 0 ORDER BY run_key",
  )) as [number, string, number, number][];
  // A database that no daemon has opened since blocks were introduced has no such table.
  const table =
    db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'step_blocks'").get() !== undefined;
  const prepared = (sql: string) => table ? prepareArrays(db, sql) : undefined;
  const keys = prepared(
    "SELECT first_seq, n FROM step_blocks WHERE run_key = ? AND first_seq + n > ? ORDER BY 1",
  );
  const block = prepared(`SELECT ${SELECT} FROM step_blocks WHERE run_key = ? AND first_seq = ?`);
  // Where a row's predecessor is no row: gaps among the rows.
  const edges = prepareArrays(
    db,
    `SELECT seq, before FROM (SELECT seq, lag(seq) OVER (ORDER BY seq) AS before FROM steps WHERE run_key = ? AND seq >= ?)
      WHERE before IS NULL OR before <> seq - 1`,
  );
  const lastRow = prepareArrays(db, "SELECT max(seq) FROM steps WHERE run_key = ?");
  for (const [runKey, runId, firstKept, head] of runs) {
    let next = firstKept;
    for (
      const [first, n] of (keys === undefined ? [] : allRows(keys, runKey, firstKept)) as [
        number,
        number,
      ][]
    ) {
      if (first > next) yield { runId, first: next, last: first - 1 };
      next = first + n;
      let whole = false;
      try {
        whole = intact(blockOf(allRows(block!, runKey, first)[0]!));
      } catch {
        // An unreadable row is damaged as well.
      }
      if (!whole) yield { runId, first, last: next - 1 };
    }
    for (const [seq, before] of allRows(edges, runKey, next) as [number, number | null][]) {
      const after = before ?? next - 1;
      if (seq > after + 1) yield { runId, first: after + 1, last: seq - 1 };
    }
    const [[last]] = allRows(lastRow, runKey) as [[number | null]];
    const end = Math.max(next - 1, last ?? 0);
    if (end < head) yield { runId, first: end + 1, last: head };
  }
}

function valuesOf(
  { first, n, crc, fromNs, toNs, unitNs, cells, hot, raw, body }: Block,
): SQLInputValue[] {
  return [first, n, crc, BigInt(fromNs), BigInt(toNs), unitNs, ...cells, hot, raw, body];
}

function blockOf(row: unknown[]): Block {
  const [first, n, crc, fromNs, toNs, unitNs] = row as [
    number,
    number,
    number,
    string,
    string,
    number,
  ];
  const [hot, raw, body] = row.slice(-3) as [string, number, Uint8Array];
  return {
    first,
    n,
    crc,
    fromNs,
    toNs,
    unitNs,
    cells: row.slice(6, -3) as Block["cells"],
    hot,
    raw,
    body,
  };
}
