/**
 * Steps that a proxy has put into a block. The daemon's welcome names the block format that it
 * accepts. It checks a block that arrives, adds run, seq, attempt and source, and stores it without
 * decompressing its texts. Pure.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import { OPTIONAL_STEP_COLUMNS } from "../gen/records/record_rows.ts";
import type { Source, StepColumns } from "../gen/records/record_types.ts";
import {
  type Block,
  type BlockSteps,
  type Cell,
  CELL_COLUMNS,
  crcOf,
  type Curve,
  curveOf,
  decodeBlock,
  encodeBlock,
  EPISODE,
  hasSpans,
  isOneBlock,
  MOST_ROWS,
  rowsOf,
  SPAN,
  STEP,
  TEXT_COLUMNS,
} from "./step_block.ts";
import { cleanColumns } from "../gen/records/step_columns.ts";
import {
  Cleaner,
  type CleanSteps,
  storableRows,
  storableText,
  storableTime,
} from "./storable_steps.ts";
import { TextColumn } from "./text_column.ts";

export interface Sealed {
  n: number;
  /** The labels of all steps. */
  labels: Source;
  /**
   * Without a position: first, attempt and source are 0. If no step has a time of its own, its
   * times are "".
   */
  block: Block;
  /** Whether steps have further fields, whose numbers are points of metrics. */
  info: boolean;
  /** Number of values that were replaced because they cannot be stored. */
  clamped: number;
}

/** Checked, with what the store reads of them. */
export interface SealedSteps extends Sealed {
  curve: Curve;
  infoJson: string[] | undefined;
}

/** Changes with everything that changes a block: both sides must have the same. */
export const SEALED_FORM = ["4", ...CELL_COLUMNS, ...TEXT_COLUMNS.map(({ column }) => column)].join(
  " ",
);

/** Fewer steps get no block, unless their texts are long. */
const LEAST_ROWS = 256;
const LONG_TEXT = 512 << 10;
/** UTF-16 units of a block's texts have up to three bytes each; the rest is for its head. */
const MOST_RAW = 8 << 20;
const NO_TIME = "";

/** The JSON that a row may have for a column, because any SQL query of the table parses it. */
const REAL = String.raw`(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|null)`;
const INDEX = String.raw`(?:0|[1-9]\d{0,15})`;
const OFFSET = String.raw`(?:0|[1-9]\d{0,18})`;
const REALS = new Set<string>(
  OPTIONAL_STEP_COLUMNS.filter(({ real }) => real).map(({ column }) => column),
);
const [TS, FLAGS] = ["ts", "flags"].map((name) => CELL_COLUMNS.indexOf(name)) as [number, number];
/** Characters of a number's text, including its separator. */
const MOST_DIGITS = 26;
const UNITS = [1, 1e3, 1e6, 1e9];

/**
 * @returns undefined for steps that the daemon makes blocks of: few, of several sources, only some
 * with a time, or one that is larger than the daemon takes in a block
 */
export function seal(columns: StepColumns<Texts>): Sealed | undefined {
  if (Object.values(labelsOf(columns)).some(Array.isArray)) return undefined;
  if (columns.n < LEAST_ROWS && lengthOfTexts(columns) < LONG_TEXT) return undefined;
  const steps = cleanColumns(new SealingCleaner(storableRows(columns)), columns, NO_TIME);
  const { n, tsNs, clamped, infoJson } = steps;
  if (tsNs.includes(NO_TIME) && tsNs.some((time) => time !== NO_TIME)) return undefined;
  if (n === 0 || !isOneBlock(n, steps.textLength)) return undefined;
  const block = encodeBlock(0, { ...steps, attempt: 0, source: 0 });
  if (block.raw > MOST_RAW) return undefined;
  return { n, labels: labelsOf(steps), block, info: infoJson !== undefined, clamped };
}

/** Texts that a proxy has read are columns already. */
class SealingCleaner extends Cleaner<TextColumn> {
  texts(column: unknown): TextColumn | undefined {
    if (!(column instanceof TextColumn)) {
      const strings = this.strings(column);
      return strings && TextColumn.of(strings);
    }
    this.clamped += column.clamped;
    this.textLength += column.length;
    return column;
  }
}

function labelsOf(
  { agentId = "", workerId = "", policyLabel = "", backend = "" }: StepColumns<unknown>,
): Source {
  return { agentId, workerId, policyLabel, backend } as Source;
}

type Texts = string[] | TextColumn;

function lengthOfTexts(
  columns: StepColumns<Texts> | Omit<BlockSteps, "attempt" | "source">,
): number {
  let length = 0;
  for (const { key } of TEXT_COLUMNS) {
    const texts = (columns[key] ?? []) as Texts;
    if (texts instanceof TextColumn) length += texts.length;
    else for (const text of texts) length += text.length;
  }
  return length;
}

/** @throws MosaicError `invalid_argument` for anything that `seal` does not make */
export function checked(sealed: Sealed): SealedSteps {
  const { block, info } = sealed;
  try {
    const wrong = whatIsWrong(sealed);
    if (wrong !== undefined) throw new Error(`${wrong} cannot be right`);
    if (hasSpans(block)) rowsOf(block);
    const infoJson = info ? decodeBlock(block).infoJson as string[] | undefined : undefined;
    return { ...sealed, curve: curveOf(block), infoJson };
  } catch (error) {
    throw new MosaicError("invalid_argument", `a block of steps is refused: ${messageOf(error)}`);
  }
}

function whatIsWrong({ n, block, labels }: Sealed): string | undefined {
  const { cells, unitNs, raw, hot, body, crc } = block;
  const place: unknown[] = [block.first, cells[0], cells[1]];
  const texts = Object.values(labels).every((label) => storableText(label) === label);
  return !texts
    ? "a label"
    : !(Number.isSafeInteger(n) && n > 0 && n <= MOST_ROWS && block.n === n)
    ? "its number of steps"
    : !Number.isSafeInteger(raw) || raw < 0 || raw > MOST_RAW ||
        body.length > raw + (raw >> 7) + 1024
    ? "the length of its texts"
    : cells.length !== CELL_COLUMNS.length || place.some((value) => value !== 0)
    ? "its columns"
    : !areTimes(block)
    ? "its times"
    : !UNITS.includes(unitNs)
    ? "its unit of time"
    : crcOf(block) !== crc
    ? "its checksum"
    : hot.length > 2 + n * (4 + cells.length * MOST_DIGITS) || !rowsAs(cells)?.test(hot) ||
        (!hasSpans(block) && countOfRows(hot) !== n)
    ? "its rows"
    : undefined;
}

function areTimes({ fromNs, toNs, cells }: Block): boolean {
  if (fromNs === NO_TIME && toNs === NO_TIME) return cells[TS] === 0;
  return [fromNs, toNs].every((time) => storableTime(time, "-") === time) &&
    BigInt(fromNs) <= BigInt(toNs);
}

const known = new Map<string, RegExp>();

/**
 * The rows' text of a block with these cells, as `encodeBlocks` writes it; undefined for cells that
 * it does not write.
 */
function rowsAs(cells: readonly Cell[]): RegExp | undefined {
  const columns: string[] = [];
  for (const [c, cell] of cells.entries()) {
    if (
      c === FLAGS || (cell === SPAN && (c === EPISODE || (c === STEP && cells[EPISODE] === SPAN)))
    ) continue;
    const isReal = REALS.has(CELL_COLUMNS[c]!);
    if (cell === `$[${columns.length}]`) columns.push(isReal ? REAL : c === TS ? OFFSET : INDEX);
    else if (
      isReal ? typeof cell !== "number" && cell !== null : c === TS ? cell !== 0 : !isIndex(cell)
    ) {
      return undefined;
    }
  }
  const flags = cells[FLAGS]!;
  const own = flags === `$[${columns.length}]`;
  if (!own && !(isIndex(flags) && flags < 4)) return undefined;
  const spans = hasSpans({ cells });
  const values = columns.join(",");
  const row = values !== ""
    ? String.raw`\[${values}${own ? "(?:,[1-3])?" : ""}\]`
    : spans
    ? own ? String.raw`(?:0|\[[1-3]\])` : "0"
    : String.raw`\[${own ? "[1-3]?" : ""}\]`;
  const form = `${spans}${row}`;
  let rows = known.get(form);
  if (rows === undefined) {
    const several = String.raw`\[${row}(?:,${row})*\]`;
    const span = String.raw`\[\[${INDEX},${INDEX},${INDEX}\],${several}\]`;
    known.set(
      form,
      rows = new RegExp(spans ? String.raw`^\[${span}(?:,${span})*\]$` : `^${several}$`),
    );
  }
  return rows;
}

function isIndex(cell: Cell): cell is number {
  return Number.isSafeInteger(cell) && cell as number >= 0;
}

function countOfRows(hot: string): number {
  let rows = 0;
  for (let at = hot.indexOf("]"); at >= 0; at = hot.indexOf("]", at + 1)) rows++;
  return rows - 1;
}

/** A sealed block as columns again, for a store that cannot store it unchanged. */
export function opened({ block, labels, clamped }: Sealed, arrivalNs: string): CleanSteps {
  const { attempt: _, source: __, ...columns } = decodeBlock(block);
  if (block.fromNs === NO_TIME) columns.tsNs.fill(arrivalNs);
  return { ...columns, ...labels, clamped, textLength: lengthOfTexts(columns) } as CleanSteps;
}

/** Places a block in its run. @param arrivalNs the time of steps that have none of their own */
export function placed(
  { block }: Sealed,
  { first, attempt, source, arrivalNs }: {
    first: number;
    attempt: number;
    source: number;
    arrivalNs: string;
  },
): Block {
  const times = block.fromNs === NO_TIME ? { fromNs: arrivalNs, toNs: arrivalNs } : {};
  const own = { ...block, ...times, first, cells: [attempt, source, ...block.cells.slice(2)] };
  return { ...own, crc: crcOf(own) };
}
