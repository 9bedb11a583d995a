/**
 * Tables to which trackers append: Stable-Baselines3's `monitor.csv` and `progress.csv`,
 * Lightning's `metrics.csv`, RLlib's `progress.csv`, and any other with a header, a column of steps
 * and columns of numbers. Some programs rewrite the whole file to add a column. Then the caller
 * sees another head and calls `restart`; rows that were returned already are recognized by their
 * content and skipped (src/readers/tables/known_rows.ts).
 */
import { rowAt, type Separator, separatorOf } from "./csv_row.ts";
import { headerIn, isNumeric, shortened } from "./csv_header.ts";
import { Rows, type RowsState } from "./known_rows.ts";
import { jsonOf, numberOfText, scalarOfText } from "../format/literal.ts";
import { peopleNumber } from "../format/people_numbers.ts";
import { BaseReader, type Output, READ_AGAIN, READ_LATER } from "../format/base_reader.ts";
import { NO_SERIES, saidStep, stepName, stepOf, timeName, timeOf } from "../format/step_column.ts";
import type { FormatState, ReadOptions, ReadResult } from "../format/format_reader.ts";
import type {
  EpisodeRecord,
  ParamsRecord,
  ParamValue,
  SourceRecord,
} from "../format/tracker_records.ts";

const MAX_ROW_BYTES = 4 << 20;
/**
 * While a table is being rewritten, a read may see old and new content side by side, with a
 * boundary that moves. If the same difference appears at the same place this many times in a row,
 * it is another table.
 */
const MAX_TRIES = 3;
const CONFIG = "config/";
const LF = 10;
const HASH = 35;

interface Header {
  columns: string[];
  /** How many columns the table has, if not all of them are read. Absent in earlier versions. */
  width?: number;
  /** Absent in earlier versions, and for a comma. */
  separator?: Separator;
  /** The first row has numbers, so no column has a name: no row is read. */
  isMissing?: true;
  /**
   * For Monitor's table: when the environment began (Unix seconds), or null. Undefined for any
   * other table.
   */
  monitorStart?: number | null;
}

/** Positions of the columns that are no series; -1: none. */
interface Layout {
  names: ReadonlySet<string>;
  step: number;
  time: number;
  config: readonly number[];
  /** Configuration, and columns that say nothing about the training. */
  others: ReadonlySet<number>;
}

function layoutOf(columns: readonly string[]): Layout {
  const names = new Set(columns);
  const [step, time] = [stepName(names), timeName(names)].map((name) =>
    columns.indexOf(name ?? "\0")
  );
  const config = columns.flatMap((name, i) => name.startsWith(CONFIG) ? [i] : []);
  const others = new Set([
    ...config,
    ...columns.flatMap((name, i) => NO_SERIES.has(name) ? [i] : []),
  ]);
  return { names, step: step!, time: time!, config, others };
}

export class CsvReader extends BaseReader {
  readonly format = "csv";
  readonly skipsKnown = true;
  #header: Header | undefined;
  #layout: Layout = layoutOf([]);
  #rows = new Rows();
  /** The rows returned before the table was rewritten, while they are being skipped. */
  #known: Rows | undefined;
  /** The last difference from the known rows, and how many times in a row it was the same. */
  #difference = "";
  #tries = 0;
  /** For Monitor's table: the sum of the episodes' lengths. */
  #episodeSteps = 0;
  #configGiven = false;
  /**
   * All known rows were found again: the next bytes may still be the old table's, so they are read
   * next time.
   */
  #paused = false;
  /** Inside a row that is too long. */
  #skipping = false;

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    const memory = state as unknown as ReturnType<CsvReader["memory"]>;
    this.#header = memory.header ?? undefined;
    this.#layout = layoutOf(memory.header?.columns ?? []);
    this.#rows = Rows.of(memory.rows);
    this.#known = memory.known === null ? undefined : Rows.of(memory.known);
    this.#difference = memory.difference;
    this.#tries = memory.tries;
    this.#episodeSteps = memory.episodeSteps;
    this.#configGiven = memory.configGiven;
    this.#skipping = memory.skipping;
  }

  protected memory() {
    return {
      header: this.#header ?? null,
      rows: this.#rows.state(),
      known: (this.#known?.state() ?? null) as RowsState | null,
      difference: this.#difference,
      tries: this.#tries,
      episodeSteps: this.#episodeSteps,
      configGiven: this.#configGiven,
      skipping: this.#skipping,
    };
  }

  /**
   * Remembers which rows were returned. A further rewrite while they are skipped does not change
   * that.
   */
  protected forget(): void {
    this.#known ??= this.#rows.count > 0 ? this.#rows : undefined;
    this.#fresh();
  }

  #fresh(): void {
    this.#rows = new Rows();
    this.#header = undefined;
    this.#episodeSteps = 0;
    this.#skipping = false;
  }

  /** The complete header rows: a wider header may begin like the narrower one. */
  protected override headOf(used: number): number {
    return used;
  }

  override read(bytes: Uint8Array, options?: ReadOptions): ReadResult {
    this.#paused = false;
    return super.read(bytes, options);
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    if (this.#paused) {
      out.wait = true;
      return 0;
    }
    if (this.#skipping) return this.#skipRow(bytes, at);
    if (this.#header === undefined) return this.#readHeader(bytes, at, out);
    const { separator, columns, width = columns.length } = this.#header;
    const row = rowAt(bytes, at, separator);
    if (row === undefined) return this.#incomplete(bytes, at, out);
    const { cells } = row;
    if (this.#header.isMissing || (cells.length === 1 && cells[0] === "")) return row.bytes;
    if (bytes[at] === HASH) return this.#comment(bytes, at, row.bytes);
    const header = headerIn(cells, columns, this.#layout.names);
    if (header === "again") return row.bytes;
    if (header !== undefined) {
      this.#begin(header, out);
      return row.bytes;
    }
    if (cells.length > width) return this.#misfit(row.bytes, cells.length, out);
    if (width > columns.length) cells.length = Math.min(cells.length, columns.length);
    this.#rows.add(this.#header.columns, cells);
    const records = this.#recordsOf(this.#header, cells);
    if (this.#known === undefined) {
      out.records.push(...records);
      return row.bytes;
    }
    if (!this.#rows.isBeginningOf(this.#known)) return this.#differs(out);
    if (this.#rows.count === this.#known.count) {
      this.#known = undefined;
      this.#difference = "";
      this.#tries = 0;
      this.#paused = !out.end;
    }
    return row.bytes;
  }

  #incomplete(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (left < MAX_ROW_BYTES) {
      out.need = left + 1;
      return 0;
    }
    const detail = `a row of more than ${MAX_ROW_BYTES} bytes`;
    out.problems.push({ what: "too_large", at: this.position, bytes: left, detail });
    this.#skipping = true;
    return this.#skipRow(bytes, at);
  }

  #skipRow(bytes: Uint8Array, at: number): number {
    const newline = bytes.indexOf(LF, at);
    if (newline < 0) return bytes.length - at;
    this.#skipping = false;
    return newline + 1 - at;
  }

  #readHeader(bytes: Uint8Array, at: number, out: Output): number {
    let from = at;
    if (bytes[from] === 0xef && bytes[from + 1] === 0xbb && bytes[from + 2] === 0xbf) from += 3;
    let monitorStart: number | null | undefined;
    let comment = "";
    if (bytes[from] === HASH) {
      const newline = bytes.indexOf(LF, from);
      if (newline < 0) return this.#incomplete(bytes, at, out);
      comment = new TextDecoder().decode(bytes.subarray(from + 1, newline));
      monitorStart = startOf(comment);
      from = newline + 1;
    }
    const separator = separatorOf(bytes, from);
    const row = rowAt(bytes, from, separator);
    if (row === undefined) return this.#incomplete(bytes, at, out);
    this.#header = { columns: [], ...(separator === "," ? {} : { separator }) };
    if (isNumeric(row.cells)) {
      // `# step,loss` as NumPy writes it.
      const names = comment.split(separator).map((name) => name.trim());
      if (names.length === row.cells.length && !isNumeric(names)) {
        this.#begin(names, out);
        return from - at;
      }
      this.#header.isMissing = true;
      const detail =
        "the first row has numbers and no names of columns; it is not read. Write a first row with names";
      out.problems.push({ what: "no_form", at: this.position, bytes: row.bytes, detail });
      return from + row.bytes - at;
    }
    this.#begin(row.cells, out);
    const { columns } = this.#header;
    if (
      monitorStart !== undefined && columns[0] === "r" && columns[1] === "l" && columns[2] === "t"
    ) {
      this.#header.monitorStart = monitorStart;
    }
    return from + row.bytes - at;
  }

  /** Columns as of the next row. */
  #begin(names: readonly string[], out: Output): void {
    const columns = shortened(names);
    const { separator, monitorStart } = this.#header!;
    this.#header = {
      columns,
      ...(columns.length < names.length ? { width: names.length } : {}),
      ...(separator === undefined ? {} : { separator }),
      ...(monitorStart === undefined ? {} : { monitorStart }),
    };
    this.#layout = layoutOf(columns);
    if (columns.length === names.length) return;
    const detail =
      `too many columns: the names of the first ${columns.length} of ${names.length} fit, and only they are read`;
    out.problems.push({ what: "too_large", at: this.position, bytes: 0, detail });
  }

  /** The head of a Monitor file again: another program has appended to it. */
  #comment(bytes: Uint8Array, at: number, length: number): number {
    const start = this.#header!.monitorStart === undefined
      ? undefined
      : startOf(new TextDecoder().decode(bytes.subarray(at + 1, at + length)));
    if (typeof start === "number") this.#header!.monitorStart = start;
    return length;
  }

  /** More cells than columns: corrupt, or the table is being rewritten. */
  #misfit(rowBytes: number, cells: number, out: Output): number {
    if (this.#known !== undefined) return this.#differs(out);
    const detail = `a row of ${cells} cells below ${this.#header!.columns.length} columns`;
    out.problems.push({ what: "corrupt", at: this.position, bytes: rowBytes, detail });
    return rowBytes;
  }

  /** The rows differ from the returned ones: after a few tries the file is read as a new table. */
  #differs(out: Output): number {
    const difference = `${this.position} ${this.#rows.hash}`;
    this.#tries = difference === this.#difference ? this.#tries + 1 : 1;
    this.#difference = difference;
    this.#fresh();
    if (this.#tries < MAX_TRIES) return out.end ? READ_AGAIN : READ_LATER;
    out.problems.push({
      what: "replaced",
      at: 0,
      bytes: 0,
      detail: "other rows than those that were read before",
    });
    this.#known = undefined;
    this.#difference = "";
    this.#tries = 0;
    this.#configGiven = false;
    return READ_AGAIN;
  }

  #recordsOf(header: Header, cells: readonly string[]): SourceRecord[] {
    if (header.monitorStart !== undefined) {
      return [this.#episode(header.columns, cells, header.monitorStart)];
    }
    const params = this.#configGiven ? undefined : configOf(header.columns, cells, this.#layout);
    this.#configGiven = true;
    const scalars = scalarsOf(header.columns, cells, this.#layout, this.#rows.count - 1);
    return params === undefined ? scalars : [params, ...scalars];
  }

  #episode(
    columns: readonly string[],
    cells: readonly string[],
    start: number | null,
  ): EpisodeRecord {
    const [r, l, t, ...others] = cells.map(numberOfText);
    this.#episodeSteps += stepOf(l) ?? 0;
    const extra = others.flatMap((value, i): [string, number][] =>
      value === undefined || columns[i + 3] === undefined ? [] : [[columns[i + 3]!, value]]
    );
    return {
      kind: "episode",
      step: this.#episodeSteps,
      wallTime: start === null || t === undefined ? undefined : start + t,
      return: r ?? null,
      length: l ?? null,
      time: t ?? null,
      extra: Object.fromEntries(extra),
    };
  }
}

/** `t_start` in the JSON after Monitor's `#`. */
function startOf(json: string): number | null {
  const value = jsonOf(json);
  const start = value !== null && typeof value === "object" && !Array.isArray(value)
    ? value["t_start"]
    : undefined;
  return typeof start === "number" && Number.isFinite(start) ? start : null;
}

/** RLlib repeats its configuration in every row, in columns of its own. */
function configOf(
  columns: readonly string[],
  cells: readonly string[],
  { config }: Layout,
): ParamsRecord | undefined {
  const values = config.flatMap((i): [string, ParamValue][] =>
    cells[i] === undefined || cells[i] === ""
      ? []
      : [[columns[i]!.slice(CONFIG.length), scalarOfText(cells[i]!)]]
  );
  if (values.length === 0) return undefined;
  return {
    kind: "params",
    origin: "config",
    wallTime: undefined,
    values: Object.fromEntries(values),
    removed: [],
  };
}

/** `100`, `1k`, `10/1000`. */
function stepNumber(cell: string): number | undefined {
  return numberOfText(cell) ?? peopleNumber(cell)?.value;
}

/** @param index of the row, from 0: its step if the table has no step column */
function scalarsOf(
  columns: readonly string[],
  cells: readonly string[],
  layout: Layout,
  index: number,
): SourceRecord[] {
  const stepCell = cells[layout.step] ?? "";
  const step = layout.step < 0
    ? index
    : !/\d/.test(stepCell)
    ? undefined
    : saidStep(columns[layout.step]!, stepNumber(stepCell) ?? NaN);
  const wallTime = timeOf(numberOfText(cells[layout.time] ?? ""));
  const records: SourceRecord[] = [];
  for (let i = 0; i < cells.length; i++) {
    const cell = cells[i]!;
    if (cell === "" || i === layout.step || (i === layout.time && wallTime !== undefined)) continue;
    const value = numberOfText(cell) ?? decimalComma(cell);
    if (value !== undefined && !layout.others.has(i)) {
      records.push({ kind: "scalar", tag: columns[i]!, step, wallTime, value });
    }
  }
  return records;
}

/** `0,5`: no number of a table that commas separate has a comma. */
function decimalComma(cell: string): number | undefined {
  return /^[+-]?\d+,\d+(?:[eE][+-]?\d+)?$/.test(cell) ? Number(cell.replace(",", ".")) : undefined;
}
