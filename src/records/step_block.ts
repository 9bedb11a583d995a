/**
 * Steps of one run in one row (docs/reference/telemetry.md, "Blocks"). The hot columns, which
 * people query by SQL, are text that SQLite can read: if all rows of a column are equal, the cell
 * is that value, otherwise it is the JSON path of the value in each step's row of `hot`. If
 * episodes and steps are consecutive, as they mostly are, they are in no row: the rows are in
 * spans, each with the episode and step of its first row. Texts are columns of their own,
 * compressed together. Pure; decoding restores the rows to the byte.
 */
import { joinedBytes } from "../base/text/joined_bytes.ts";
import { zlib } from "../base/node_modules.ts";
import { OPTIONAL_STEP_COLUMNS } from "../gen/records/record_rows.ts";
import { crc32c } from "../base/crc32c.ts";
import { textColumns } from "./record_fields.ts";
import { decodeTexts, encodeTexts, TextColumn } from "./text_column.ts";

type Key = typeof OPTIONAL_STEP_COLUMNS[number]["key"];

/** The steps of a block as columns: arrays of `n`; `undefined` if all rows have the default. */
export type BlockSteps<Texts = string[]> =
  & { n: number; attempt: number[] | number; source: number[] | number; tsNs: string[] }
  & { [K in Key]?: number[] | Texts | undefined };

/** A number that all rows have, or the path of each row's own, or SPAN. */
export type Cell = number | string | null;

/**
 * For episode: all rows of a span have that of its head. For step: each row has one more than the
 * row before.
 */
export const SPAN = "span";
/**
 * The number of the block's rows before it, and its first row's episode and step (0 if the cell is
 * not SPAN).
 */
export type SpanHead = [at: number, episode: number, step: number];
/** A row's values of the columns that have a path; 0 for none. */
type Row = (number | null)[] | 0;
/** With fewer rows per span, spans do not save space. */
const LEAST_SPAN = 4;

/**
 * A row of step_blocks without its key. Times are decimal texts, because they have more digits than
 * a number.
 */
export interface Block {
  first: number;
  n: number;
  crc: number;
  fromNs: string;
  toNs: string;
  /** Unit of the times' offsets, in nanoseconds. */
  unitNs: number;
  cells: Cell[];
  hot: string;
  /** Length of `body` before compression. */
  raw: number;
  body: Uint8Array;
}

const TEXTS = new Set(textColumns("steps"));
export const TEXT_COLUMNS = OPTIONAL_STEP_COLUMNS.filter(({ column }) => TEXTS.has(column));
const FLAGS = ["terminated", "truncated"];
const NUMBERS = OPTIONAL_STEP_COLUMNS.filter(({ column }) =>
  !TEXTS.has(column) && !FLAGS.includes(column)
);
/** Columns of step_blocks that hold cells, in the order of `Block.cells`. */
export const CELL_COLUMNS: readonly string[] = [
  ...["attempt", "source", "ts", "flags"],
  ...NUMBERS.map(({ column }) => column),
];

const place = (column: string) => CELL_COLUMNS.indexOf(column);
const TS = place("ts");
export const EPISODE = place("episode");
export const STEP = place("step");
const REWARD = place("reward");
/** More rows or longer texts become several blocks. */
export const MOST_ROWS = 4096;
const MOST_TEXT = 2 << 20;
/**
 * Nanoseconds between the first and the last time of a block, up to which offsets are exact
 * numbers.
 */
const MOST_NS = 9_000_000_000_000_000n;
const LEVEL = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One block, or several if one would be too large. @param first seq of the first step */
export function encodeBlocks(first: number, steps: BlockSteps): Block[] {
  const parts: [number, number][] = [];
  cut(steps, 0, steps.n, parts);
  return parts.map(([from, to]) =>
    encodeBlock(first + from, from === 0 && to === steps.n ? steps : part(steps, from, to))
  );
}

/** @returns the steps. @throws Error that says what is wrong with a damaged block */
export function decodeBlock(block: Block): BlockSteps {
  if (crcOf(block) !== block.crc) throw new Error("its checksum does not match");
  const { n } = block;
  const far = isFar(block);
  const { column, numbers, spanned } = hotColumns(block, far);
  const [attempt, source, ts, flags, ...others] = block.cells as [
    Cell,
    Cell,
    Cell,
    Cell,
    ...Cell[],
  ];
  const steps: BlockSteps = {
    n,
    attempt: numbers(attempt),
    source: numbers(source),
    tsNs: far
      ? (column(ts, 0) as unknown as string[]).map((offset) =>
        String(BigInt(block.fromNs) + BigInt(offset))
      )
      : timesOf(block, typeof ts === "string" ? numbers(ts) as number[] : undefined),
  };
  const bits = numbers(flags);
  const bit = (mask: number) =>
    Array.isArray(bits) ? bits.map((b) => b & mask ? 1 : 0) : filled(n, bits & mask ? 1 : 0);
  steps.terminated = bit(1);
  steps.truncated = bit(2);
  NUMBERS.forEach(({ key }, c) => {
    const cell = others[c]!;
    const values = cell === SPAN ? spanned(key as "episode" | "step") : numbers(cell);
    steps[key] = typeof values === "number" ? filled(n, values) : values;
  });
  if (block.raw > 0) {
    const body = zlib().zstdDecompressSync(block.body, {
      maxOutputLength: block.raw,
    }) as Uint8Array;
    let at = body.indexOf(10) + 1;
    const head = JSON.parse(decoder.decode(body.subarray(0, at))) as [string, number][];
    for (const [name, length] of head) {
      const known = TEXT_COLUMNS.find(({ column }) => column === name);
      if (known === undefined) {
        throw new Error(`it has a column ${name}, which this mosaic does not know`);
      }
      if (!(length > 0 && length <= body.length - at) || steps[known.key] !== undefined) {
        throw new Error(`it has ${length} bytes of column ${name}`);
      }
      steps[known.key] = decodeTexts(body.subarray(at, at + length), n);
      at += length;
    }
  }
  return steps;
}

/** Whether its rows are in spans. */
export function hasSpans({ cells }: { cells: readonly Cell[] }): boolean {
  return cells[EPISODE] === SPAN || cells[STEP] === SPAN;
}

/** @throws Error if their number or positions do not match the block */
export function rowsOf(
  block: Block,
  far = isFar(block),
): { spans: [SpanHead, Row[]][]; rows: Row[] } {
  const hot = JSON.parse(block.hot, far ? exact : undefined) as unknown;
  const spans = hasSpans(block)
    ? hot as [SpanHead, Row[]][]
    : [[[0, 0, 0], hot] as [SpanHead, Row[]]];
  const rows: Row[] = [];
  for (const [[at], own] of spans) {
    if (at !== rows.length) throw new Error(`it has rows from ${at} on behind ${rows.length}`);
    for (const row of own) rows.push(row);
  }
  if (rows.length !== block.n) throw new Error(`it has ${rows.length} of ${block.n} rows`);
  return { spans, rows };
}

/** The values of a block's hot columns. */
function hotColumns(block: Block, far: boolean) {
  const { n } = block;
  const { spans, rows } = rowsOf(block, far);
  const column = (cell: Cell, absent: number | null): (number | null)[] | number | null => {
    if (typeof cell !== "string") return cell;
    const at = Number(cell.slice(2, -1));
    return rows.map((row) => row !== 0 && at < row.length ? row[at]! : absent);
  };
  const numbers = (cell: Cell): number[] | number => {
    const found = column(cell, 0);
    if (!Array.isArray(found)) return found ?? NaN;
    for (let i = 0; i < n; i++) found[i] = found[i] === null ? NaN : Number(found[i]);
    return found as number[];
  };
  const spanned = (column: "episode" | "step"): number[] =>
    spans.flatMap(([[, episode, step], own]) =>
      own.map((_, i) => column === "episode" ? episode : step + i)
    );
  return { column, numbers, spanned };
}

/** The part of a block's steps that a curve needs. */
export interface Curve {
  n: number;
  reward: readonly number[] | number;
  tsNs: (i: number) => string;
}

/**
 * Rewards and times; the texts stay compressed, and if both are equal in all steps, nothing is
 * parsed.
 */
export function curveOf(block: Block): Curve {
  const { n, cells, fromNs, unitNs } = block;
  const [ts, reward] = [cells[TS]!, cells[REWARD]!];
  if (typeof ts !== "string" && typeof reward !== "string") {
    return {
      n,
      reward: reward ?? NaN,
      tsNs: () => fromNs,
    };
  }
  const { column, numbers } = hotColumns(block, isFar(block));
  const offsets = column(ts, 0);
  if (Array.isArray(offsets)) {
    const range = (BigInt(block.toNs) - BigInt(fromNs)) / BigInt(unitNs);
    const most = Number(range);
    const within = (offset: number | string | null) =>
      typeof offset === "string"
        ? BigInt(offset) <= range
        : Number.isSafeInteger(offset) && offset! >= 0 && offset! <= most;
    if (!offsets.every(within)) {
      throw new Error("it has a time that is not between its first and its last");
    }
  }
  return {
    n,
    reward: numbers(reward),
    tsNs: (i) =>
      Array.isArray(offsets)
        ? String(BigInt(fromNs) + BigInt(unitNs) * BigInt(offsets[i]!))
        : fromNs,
  };
}

/** Whether a block is intact; decompresses nothing. */
export function intact(block: Block): boolean {
  return crcOf(block) === block.crc;
}

/** @param steps within a block's bounds on rows and text length */
export function encodeBlock(first: number, steps: BlockSteps<string[] | TextColumn>): Block {
  const { n } = steps;
  const [offsets, range] = offsetsOf(steps.tsNs);
  const columns: (number | string)[][] = [];
  const cell = (values: (number | string)[] | number | undefined): Cell => {
    if (!Array.isArray(values)) return values ?? 0;
    const one = values[0]!;
    if (typeof one === "number" && values.every((value) => Object.is(value, one))) {
      return Number.isNaN(one) ? null : one;
    }
    return `$[${columns.push(values) - 1}]`;
  };
  const cells = [cell(steps.attempt), cell(steps.source), cell(offsets), 0];
  const isEverybodys = typeof cells[0] === "number" && typeof cells[1] === "number";
  const spans = isEverybodys ? spansOf(steps) : undefined;
  for (const { key } of NUMBERS) {
    const isSpan = (key === "episode" && spans !== undefined) ||
      (key === "step" && spans?.countsSteps === true);
    cells.push(isSpan ? SPAN : cell(steps[key] as number[] | undefined));
  }
  // Flags come last in their row, and only if one is set: few steps end an episode.
  const flags = flagsOf(steps);
  const same = flags === undefined || flags.every((flag) => flag === flags[0]);
  cells[3] = same ? flags?.[0] ?? 0 : `$[${columns.length}]`;
  const nothing = spans === undefined ? "[]" : "0";
  const rows: string[] = [];
  for (let i = 0; i < n; i++) {
    let row = "";
    for (const column of columns) {
      row += row === "" ? numberText(column[i]!) : "," + numberText(column[i]!);
    }
    if (!same && flags[i] !== 0) row += row === "" ? flags[i] : "," + flags[i];
    rows.push(row === "" ? nothing : `[${row}]`);
  }
  const parts = spans?.heads.map((head, s) =>
    `[[${head}],[${rows.slice(head[0], spans.heads[s + 1]?.[0])}]]`
  );
  const [raw, body] = bodyOf(steps);
  const block = { first, n, crc: 0, ...range, cells, hot: `[${parts ?? rows}]`, raw, body };
  block.crc = crcOf(block);
  return block;
}

interface Spans {
  heads: SpanHead[];
  /** Their steps are consecutive, too. */
  countsSteps: boolean;
}

/** Spans of the rows, if they save space. */
function spansOf({ n, episode, step }: BlockSteps<unknown>): Spans | undefined {
  const [episodes, steps] = [episode, step] as (number[] | undefined)[];
  for (const countsSteps of steps === undefined ? [false] : [true, false]) {
    const heads: SpanHead[] = [];
    for (let i = 0; i < n && heads.length * LEAST_SPAN <= n; i++) {
      const [e, s] = [episodes?.[i] ?? 0, countsSteps ? steps![i]! : 0];
      const head = heads.at(-1);
      if (head !== undefined && head[1] === e && (!countsSteps || s === head[2] + i - head[0])) {
        continue;
      }
      heads.push([i, e, s]);
    }
    const isWorthIt = heads.length * LEAST_SPAN <= n && (countsSteps || heads.length > 1);
    if (isWorthIt) return { heads, countsSteps };
  }
  return undefined;
}

function flagsOf({ n, ...own }: BlockSteps<unknown>): number[] | undefined {
  const [terminated, truncated] = [own.terminated, own.truncated] as (number[] | undefined)[];
  if (terminated === undefined && truncated === undefined) return undefined;
  const flags = filled(n, 0);
  if (terminated !== undefined) { for (let i = 0; i < n; i++) flags[i] = terminated[i]!; }
  if (truncated !== undefined) { for (let i = 0; i < n; i++) flags[i]! += 2 * truncated[i]!; }
  return flags;
}

/** A number as JSON that SQLite and JSON.parse read alike. */
export function numberText(value: number | string): string {
  if (typeof value === "string") return value;
  if (value - value === 0) return String(value);
  return Number.isNaN(value) ? "null" : value > 0 ? "9e999" : "-9e999";
}

function bodyOf(steps: BlockSteps<string[] | TextColumn>): [raw: number, body: Uint8Array] {
  const parts: Uint8Array[] = [];
  const head: [string, number][] = [];
  for (const { key, column } of TEXT_COLUMNS) {
    const values = steps[key] as string[] | TextColumn | undefined;
    if (values === undefined) continue;
    if (
      values instanceof TextColumn ? values.length === 0 : values.every((value) => value === "")
    ) continue;
    const bytes = encodeTexts(values);
    parts.push(bytes);
    head.push([column, bytes.length]);
  }
  if (parts.length === 0) return [0, new Uint8Array()];
  const all = joinedBytes([encoder.encode(JSON.stringify(head) + "\n"), ...parts]);
  return [all.length, packed(all)];
}

export function crcOf(
  { first, n, fromNs, toNs, unitNs, cells: all, hot, raw, body }: Block,
): number {
  // A column that a later version adds is 0 in older blocks.
  const cells = all.slice(0, all.findLastIndex((cell) => cell !== 0) + 1);
  const head = encoder.encode(JSON.stringify([first, n, fromNs, toNs, unitNs, raw, cells]) + hot);
  return crc32c(body, 0, body.length, crc32c(head));
}

function filled(n: number, value: number): number[] {
  return new Array<number>(n).fill(value);
}

// ---- times: seconds and nanoseconds apart, so that no big integer is needed for each row

interface Times {
  seconds: number[];
  nanos: number[];
}

function times(tsNs: readonly string[]): Times {
  const seconds: number[] = [];
  const nanos: number[] = [];
  for (let i = 0; i < tsNs.length; i++) {
    const text = tsNs[i]!;
    const again = i > 0 && text === tsNs[i - 1];
    seconds.push(again ? seconds[i - 1]! : Number(text.slice(0, -9)));
    nanos.push(again ? nanos[i - 1]! : Number(text.slice(-9)));
  }
  return { seconds, nanos };
}

function nsText(seconds: number, nanos: number): string {
  return seconds === 0 ? String(nanos) : seconds + String(nanos).padStart(9, "0");
}

function isFar({ fromNs, toNs }: Pick<Block, "fromNs" | "toNs">): boolean {
  return BigInt(toNs) - BigInt(fromNs) > MOST_NS;
}

/** A reviver that keeps the digits of integers that a number cannot hold. */
function exact(_: string, value: unknown, context?: { source: string }): unknown {
  const large = typeof value === "number" && !Number.isSafeInteger(value) &&
    /^\d+$/.test(context!.source);
  return large ? context!.source : value;
}

function offsetsOf(
  tsNs: string[],
): [(number | string)[] | number, Pick<Block, "fromNs" | "toNs" | "unitNs">] {
  const one = tsNs[0]!;
  // Often all have the same time, that of their arrival.
  if (tsNs.every((text) => text === one)) return [0, { fromNs: one, toNs: one, unitNs: 1e9 }];
  const { seconds, nanos } = times(tsNs);
  const later = (a: number, b: number) => seconds[a]! - seconds[b]! || nanos[a]! - nanos[b]!;
  let least = 0;
  let most = 0;
  for (let i = 1; i < tsNs.length; i++) {
    if (later(i, least) < 0) least = i;
    if (later(i, most) > 0) most = i;
  }
  const range = { fromNs: tsNs[least]!, toNs: tsNs[most]! };
  if (isFar(range)) {
    return [tsNs.map((text) => String(BigInt(text) - BigInt(range.fromNs))), {
      ...range,
      unitNs: 1,
    }];
  }
  const offsets = seconds.map((second, i) =>
    (second - seconds[least]!) * 1e9 + nanos[i]! - nanos[least]!
  );
  const unitNs = [1e9, 1e6, 1e3].find((unit) => offsets.every((offset) => offset % unit === 0)) ??
    1;
  return [offsets.map((offset) => offset / unitNs), { ...range, unitNs }];
}

function timesOf({ n, fromNs, unitNs }: Block, offsets: number[] | undefined): string[] {
  if (offsets === undefined) return new Array<string>(n).fill(fromNs);
  const { seconds: [second], nanos: [nano] } = times([fromNs]);
  return offsets.map((offset) => {
    const nanos = offset * unitNs;
    const whole = Math.floor(nanos / 1e9);
    const rest = nanos - whole * 1e9 + nano!;
    return rest < 1e9 ? nsText(second! + whole, rest) : nsText(second! + whole + 1, rest - 1e9);
  });
}

// ---- cutting

function cut(steps: BlockSteps, from: number, to: number, parts: [number, number][]): void {
  if (fits(steps, from, to)) return void parts.push([from, to]);
  const middle = (from + to) >> 1;
  cut(steps, from, middle, parts);
  cut(steps, middle, to, parts);
}

/**
 * Whether this many steps with texts of this many UTF-16 units fit in one block: a single step
 * always does.
 */
export function isOneBlock(n: number, textLength: number): boolean {
  return n <= 1 || (n <= MOST_ROWS && textLength <= MOST_TEXT);
}

function fits(steps: BlockSteps, from: number, to: number): boolean {
  if (to - from > MOST_ROWS) return false;
  let length = 0;
  for (const { key } of TEXT_COLUMNS) {
    const values = steps[key] as string[] | undefined;
    if (values !== undefined) { for (let i = from; i < to; i++) length += values[i]!.length; }
  }
  return isOneBlock(to - from, length);
}

/** Concatenates steps. */
export function joinedSteps(parts: readonly BlockSteps[]): BlockSteps {
  if (parts.length === 1) return parts[0]!;
  const column = <T>(of: (part: BlockSteps) => T[] | T | undefined, absent: T): T[] =>
    parts.flatMap((part) => {
      const values = of(part);
      return Array.isArray(values) ? values : new Array<T>(part.n).fill(values ?? absent);
    });
  const joined = {
    n: parts.reduce((sum, { n }) => sum + n, 0),
    attempt: column((part) => part.attempt, 0),
    source: column((part) => part.source, 0),
    tsNs: column((part) => part.tsNs, ""),
  } as BlockSteps;
  for (const { key, column: name } of OPTIONAL_STEP_COLUMNS) {
    if (parts.every((part) => part[key] === undefined)) continue;
    joined[key] = column((part) => part[key] as never[], (TEXTS.has(name) ? "" : 0) as never);
  }
  return joined;
}

function part(steps: BlockSteps, from: number, to: number): BlockSteps {
  const sliced: Record<string, unknown> = { n: to - from };
  for (const [key, column] of Object.entries(steps)) {
    if (key !== "n") sliced[key] = Array.isArray(column) ? column.slice(from, to) : column;
  }
  return sliced as BlockSteps;
}

function packed(bytes: Uint8Array): Uint8Array {
  const { constants, zstdCompressSync } = zlib();
  return zstdCompressSync(bytes, {
    params: { [constants.ZSTD_c_compressionLevel]: LEVEL },
  }) as Uint8Array;
}
