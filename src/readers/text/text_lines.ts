/**
 * Reads numbers from text that training programs print for people: the fields of one line, or nothing. Never throws; a
 * line's cost is bounded, and most lines are rejected by their first character. Lines of mosaic's own telemetry
 * (src/readers/lines) must be tried before.
 */
import { flatNumbers, isObject } from "../format/flat.ts";
import { jsonOf, literalOf, numberOfText, numberOfValue } from "../format/literal.ts";
import { STEP_NAMES, stepOf, timeName, timeOf } from "../format/step_column.ts";
import type { TextDialect } from "./text_dialects.ts";
import type { ParamValue } from "../format/tracker_records.ts";

export interface LineEpisode {
  return: number | null;
  length: number | null;
  time: number | null;
}

export interface LineFields {
  dialect: TextDialect;
  step: number | undefined;
  /** The step is the line's episode, because the line has no step. */
  stepIsEpisode: boolean;
  wallTime: number | undefined;
  scalars: [tag: string, value: number][];
  episode: LineEpisode | undefined;
}

/** Longer lines are not meant for people. */
const MAX_LINE = 65_536;
const MAX_FIELDS = 1000;
const MAX_ROWS = 512;
/** An epoch may be a fraction (Transformers), so here it is a series. In a file with a header it can be the step. */
const LINE_STEP_NAMES = STEP_NAMES.filter((name) => name !== "epoch");
/** What places a line: its step, else its episode. */
const PLACE_NAMES = [...LINE_STEP_NAMES, "episode"];
const KIND_NAMES = ["type", "event_type", "event"];

export class TextLines {
  readonly #off: ReadonlySet<TextDialect>;
  /** The rows of the unfinished table, and the heading of the last ones. */
  #table: { scope: string; rows: [string, number][] } | undefined;
  #openLines = 0;

  constructor(off: Iterable<TextDialect> = []) {
    this.#off = new Set(off);
  }

  /** How many of the last lines belong to an unfinished table: their fields come with its end. */
  get openLines(): number {
    return this.#openLines;
  }

  /** A line that is not passed to `read`: it ends a table. */
  pass(): void {
    this.#table = undefined;
    this.#openLines = 0;
  }

  /** @param line without its newline */
  read(line: string): LineFields | undefined {
    if (!this.#off.has("table")) {
      const first = line[0];
      if (first === "-" || first === "|") {
        const fields = this.#tableLine(line);
        this.#openLines = this.#table === undefined ? 0 : this.#openLines + 1;
        return fields;
      }
      this.pass();
    }
    return readTextLine(line, this.#off);
  }

  #tableLine(line: string): LineFields | undefined {
    if (isRule(line)) {
      const fields = this.#table === undefined ? undefined : tableFields(this.#table);
      // A rule ends a block or begins one; after a block without rows it begins the next.
      this.#table = fields === undefined ? { scope: "", rows: [] } : undefined;
      this.#openLines = 0;
      return fields;
    }
    const table = this.#table;
    this.#table = undefined;
    if (table === undefined || line.length > 256) return undefined;
    const row = rowOf(line);
    if (row === undefined || table.rows.length >= MAX_ROWS) return undefined;
    const { isIndented, key, value } = row;
    if (!isIndented) table.scope = key.endsWith("/") && value === "" ? key : "";
    const number = numberOfText(value);
    if (number !== undefined) table.rows.push([(isIndented ? table.scope : "") + key, number]);
    this.#table = table;
    return undefined;
  }
}

/** `| key | value |`, or with three more spaces before the key. */
function rowOf(line: string): { isIndented: boolean; key: string; value: string } | undefined {
  const cells = line.trimEnd().split("|", 5);
  if (cells.length !== 4 || cells[0] !== "" || cells[3] !== "" || !cells[2]!.startsWith(" ")) return undefined;
  const isIndented = cells[1]!.startsWith("    ");
  const key = cells[1]!.slice(isIndented ? 4 : 1);
  if (!cells[1]!.startsWith(" ") || !/^\S/.test(key)) return undefined;
  return { isIndented, key: withoutSpaces(key), value: withoutSpaces(cells[2]!.slice(1)) };
}

/** Spaces at the end only: a tab belongs to the cell. */
function withoutSpaces(text: string): string {
  let end = text.length;
  while (text[end - 1] === " ") end--;
  return text.slice(0, end);
}

function isRule(line: string): boolean {
  return line.length >= 8 && line.length <= 256 && /^-+\s*$/.test(line);
}

function tableFields({ rows }: { rows: [string, number][] }): LineFields | undefined {
  return rows.length === 0 ? undefined : fieldsOf("table", new Map(rows), false);
}

/** The dialects that need one line only. */
export function readTextLine(line: string, off: ReadonlySet<TextDialect> = new Set()): LineFields | undefined {
  if (line.length > MAX_LINE) return undefined;
  const text = line.trim();
  const first = text[0];
  if (first === "{") return text.endsWith("}") ? readObject(text, off) : undefined;
  if (first === undefined || off.has("key_value") || !text.includes("=")) return undefined;
  return readPairs(text, !off.has("episode"));
}

function readObject(text: string, off: ReadonlySet<TextDialect>): LineFields | undefined {
  // An object of numbers begins with a quoted key, in either language.
  const quote = /^\{\s*(["'])/.exec(text)?.[1];
  if (quote === undefined) return undefined;
  const json = quote === '"' ? jsonOf(text) : undefined;
  const value = json ?? literalOf(text);
  if (!isObject(value)) return undefined;
  if (KIND_NAMES.some((name) => typeof value[name] === "string" && value[name] !== "")) return undefined;
  const episodes = !off.has("episode");
  const dialect = json === undefined ? "python_dict" : "json";
  if (episodes) {
    const found = episodeOf(isObject(value["episode"]) ? value["episode"] : value);
    if (found !== undefined) return episodeFields(found, value);
  }
  if (off.has(dialect)) return undefined;
  return fieldsOf(dialect, flatNumbers(dialect === "json" ? value : withNumbers(value), "/"), episodes);
}

/** Transformers 5 prints its numbers as texts: taken as numbers if every text is one. */
function withNumbers(value: { [key: string]: ParamValue }): { [key: string]: ParamValue } {
  const entries = Object.entries(value);
  const read = entries.map(([key, v]): [string, ParamValue] => [key, typeof v === "string" ? numberOfText(v) ?? v : v]);
  return read.some(([, v]) => typeof v === "string") ? value : Object.fromEntries(read);
}

/** Gymnasium's RecordEpisodeStatistics: return, length and seconds. */
function episodeOf(value: { [key: string]: ParamValue }): LineEpisode | undefined {
  if (!Object.hasOwn(value, "r") || !Object.hasOwn(value, "l")) return undefined;
  const [r, l, t] = [value["r"], value["l"], value["t"]].map(numberOfValue);
  return r === undefined || l === undefined ? undefined : { return: r, length: l, time: t ?? null };
}

/** The object's other numbers are scalars. */
function episodeFields(episode: LineEpisode, value: { [key: string]: ParamValue }): LineFields {
  const own = isObject(value["episode"]) ? ["episode"] : ["r", "l", "t"];
  const beside = Object.fromEntries(Object.entries(value).filter(([name]) => !own.includes(name)));
  return { dialect: "episode", ...placed(flatNumbers(beside, "/")), episode };
}

const PAIR = /([A-Za-z_][\w./-]{0,127})=(\[[^\]=]*\]|[^\s,;|=]+)(?:[\s,;|]+|$)/y;

/**
 * The line consists of `key=value` pairs after an optional short beginning, with at least two pairs, or a step among them.
 * After a beginning, a step or an episode must be among them.
 */
function readPairs(text: string, episodes: boolean): LineFields | undefined {
  const start = /^[^=()]{0,80}?(?=[A-Za-z_][\w./-]{0,127}=)/.exec(text)?.[0];
  if (start === undefined || (start !== "" && !/[\s:\]|>]$/.test(start))) return undefined;
  PAIR.lastIndex = start.length;
  const numbers = new Map<string, number>();
  let pairs = 0;
  while (PAIR.lastIndex < text.length) {
    const found = PAIR.exec(text);
    if (found === null || ++pairs > MAX_FIELDS) return undefined;
    const value = numberOfPair(found[2]!);
    if (value !== undefined) numbers.set(found[1]!, value);
  }
  if (numbers.size === 0 || (pairs < 2 && !LINE_STEP_NAMES.some((name) => numbers.has(name)))) return undefined;
  // After a beginning, only pairs with a step or an episode are surely a record; others may be settings.
  if (start !== "" && !PLACE_NAMES.some((name) => numbers.has(name))) return undefined;
  return fieldsOf("key_value", numbers, episodes);
}

/** `12.0`, `[12.]`, `[[ 9.]]`: one number. */
function numberOfPair(text: string): number | undefined {
  return numberOfText(text) ?? (text[0] === "[" ? numberOfValue(literalOf(text)) : undefined);
}

function fieldsOf(
  dialect: TextDialect,
  numbers: ReadonlyMap<string, number>,
  episodes: boolean,
): LineFields | undefined {
  if (numbers.size === 0 || numbers.size > MAX_FIELDS) return undefined;
  const place = placed(numbers);
  if (place.scalars.length === 0) return undefined;
  const episodicReturn = numbers.get("episodic_return");
  const episode = !episodes || episodicReturn === undefined
    ? undefined
    : { return: episodicReturn, length: numbers.get("episodic_length") ?? null, time: null };
  return { dialect, ...place, episode };
}

/** The line's step and time, and its numbers without those two. */
function placed(numbers: ReadonlyMap<string, number>): Omit<LineFields, "dialect" | "episode"> {
  const stepKey = PLACE_NAMES.find((name) => stepOf(numbers.get(name)) !== undefined);
  const timeKey = timeName(numbers.keys());
  const wallTime = timeOf(timeKey === undefined ? undefined : numbers.get(timeKey));
  return {
    step: stepKey === undefined ? undefined : numbers.get(stepKey),
    stepIsEpisode: stepKey === "episode",
    wallTime,
    scalars: [...numbers].filter(([name]) => name !== stepKey && (name !== timeKey || wallTime === undefined)),
  };
}
