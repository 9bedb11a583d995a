/**
 * Reads numbers from text that training programs print for people: the fields of one line, or
 * nothing. Never throws; a line's cost is bounded, and most lines are rejected by their first
 * character. Lines of mosaic's own telemetry (src/readers/lines) must be tried before.
 */
import { flatNumbers, isObject } from "../format/flat.ts";
import { jsonOf, literalOf, numberOfText, numberOfValue } from "../format/literal.ts";
import type { ParamValue } from "../format/tracker_records.ts";
import { beginningOf, withoutColours } from "./clean_line.ts";
import {
  fieldsOf,
  hasLostStep,
  LINE_STEP_NAMES,
  type LineEpisode,
  type LineFields,
  MAX_FIELDS,
  PLACE_NAMES,
  placed,
  type Unread,
} from "./line_fields.ts";
import { isCandidate, looksLikeResults, readNamed } from "./named_lines.ts";
import { namedNumbers } from "./named_numbers.ts";
import { peopleNumber } from "../format/people_numbers.ts";
import { type Bar, barOf } from "./progress_bars.ts";
import type { RunProgress } from "./run_progress.ts";
import { type PrintedTrial, trialOf } from "./trial_lines.ts";
import { ofRank } from "./ranks.ts";
import type { TextDialect } from "./text_dialects.ts";

export type { LineFields, Unread };

/** Longer lines are not meant for people. */
const MAX_LINE = 65_536;
const MAX_ROWS = 512;
const KIND_NAMES = ["type", "event_type", "event"];
/** Lightning's number of the version, in its bar. */
const NO_VALUES = new Set(["v_num"]);

export class TextLines {
  readonly #off: ReadonlySet<TextDialect>;
  /** The rows of the unfinished table, and the heading of the last ones. */
  #table: { scope: string; rows: [string, number][] } | undefined;
  readonly #progress: RunProgress | undefined;
  #openLines = 0;
  #why: { unread?: Unread | undefined } = {};

  /** @param progress sees each line */
  constructor(off: Iterable<TextDialect> = [], progress?: RunProgress) {
    this.#off = new Set(off);
    this.#progress = this.#off.has("bar") ? undefined : progress;
  }

  /** How many of the last lines belong to an unfinished table: their fields come with its end. */
  get openLines(): number {
    return this.#openLines;
  }

  /** Why the last line gave nothing, if it seems to have numbers of a training. */
  get unread(): Unread | undefined {
    return this.#why.unread;
  }

  /** A line that is not passed to `read`: it ends a table. */
  pass(): void {
    this.#table = undefined;
    this.#openLines = 0;
  }

  /** @param line without its newline */
  read(line: string): LineFields | undefined {
    this.#why.unread = undefined;
    if (!this.#off.has("table")) {
      const first = line[0];
      if (first === "-" || first === "|") {
        const fields = this.#tableLine(line);
        this.#openLines = this.#table === undefined ? 0 : this.#openLines + 1;
        return fields;
      }
      this.pass();
    }
    const fields = readTextLine(line, this.#off, this.#why);
    this.#progress?.see(line, (fields?.scalars.length ?? 0) > 0);
    return fields === undefined ? undefined : ofRank(fields, line);
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
  if (cells.length !== 4 || cells[0] !== "" || cells[3] !== "" || !cells[2]!.startsWith(" ")) {
    return undefined;
  }
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

/**
 * The dialects that need one line only.
 * @param why set, if the line gives nothing but seems to have numbers of a training
 */
export function readTextLine(
  line: string,
  off: ReadonlySet<TextDialect> = new Set(),
  why: { unread?: Unread | undefined } = {},
): LineFields | undefined {
  if (line.length > MAX_LINE) return undefined;
  const text = withoutColours(line).trim();
  const first = text[0];
  if (first === undefined) return undefined;
  if (text.includes("Trial ") && !off.has("trial")) {
    const trial = trialOf(text);
    if (trial !== undefined) return trialFields(trial);
  }
  if (first === "{") return text.endsWith("}") ? readObject(text, off, why) : undefined;
  if (!off.has("key_value") && text.includes("=")) {
    const fields = readPairs(text, !off.has("episode"));
    if (fields !== undefined) return fields;
  }
  if (!isCandidate(text)) return undefined;
  if (!off.has("bar")) {
    const bar = barOf(text);
    if (bar !== undefined) return readBar(bar, off, why);
  }
  if (text.endsWith("}")) {
    const at = beginningOf(text);
    if (text[at] === "{") return readObject(text.slice(at), off, why);
  }
  const fields = readNamed(text, !off.has("episode"), why);
  if (fields !== undefined) return off.has(fields.dialect) ? undefined : fields;
  if (why.unread === undefined && looksLikeResults(text)) why.unread = "form";
  return undefined;
}

/** The study's own curve: the value of each trial. */
function trialFields(trial: PrintedTrial): LineFields {
  const named = (i: number) => trial.values.length === 1 ? "trial/value" : `trial/value_${i}`;
  const scalars = trial.values.map((value, i): [string, number] => [named(i), value]);
  return {
    dialect: "trial",
    step: trial.number,
    stepIsEpisode: false,
    wallTime: undefined,
    scalars,
    episode: undefined,
    trial,
  };
}

/** The values of a loop that says its epoch, and Keras', count when it is complete. */
function readBar(
  bar: Bar,
  off: ReadonlySet<TextDialect>,
  why: { unread?: Unread | undefined },
): LineFields {
  const { at, of, title, values, rest } = bar;
  const behind = rest === "" ? undefined : readTextLine(rest, off, why);
  const progress = { at, of };
  if (behind !== undefined) return { ...behind, progress };
  const [, epoch] = /\bepoch\D{0,3}(\d{1,9})/i.exec(title) ?? [];
  const isKeras = title === "" && values.includes(": ");
  const counts = values !== "" && ((epoch === undefined && !isKeras) || at === of);
  const named = counts ? namedNumbers(values, 0)?.items ?? [] : [];
  const scalars = named.filter(({ name }) => !NO_VALUES.has(name)).map((
    { name, value },
  ): [string, number] => [name, value]);
  const step = isKeras ? undefined : epoch === undefined ? at : Number(epoch);
  return {
    dialect: "bar",
    step,
    stepIsEpisode: false,
    wallTime: undefined,
    scalars,
    episode: undefined,
    progress,
  };
}

function readObject(
  text: string,
  off: ReadonlySet<TextDialect>,
  why: { unread?: Unread | undefined },
): LineFields | undefined {
  // An object of numbers begins with a quoted key, in either language.
  const quote = /^\{\s*(["'])/.exec(text)?.[1];
  if (quote === undefined) return undefined;
  const json = quote === '"' ? jsonOf(text) : undefined;
  const value = json ?? literalOf(text);
  if (!isObject(value)) return undefined;
  if (KIND_NAMES.some((name) => typeof value[name] === "string" && value[name] !== "")) {
    return undefined;
  }
  const episodes = !off.has("episode");
  const dialect = json === undefined ? "python_dict" : "json";
  if (episodes) {
    const found = episodeOf(isObject(value["episode"]) ? value["episode"] : value);
    if (found !== undefined) return episodeFields(found, value);
  }
  if (off.has(dialect)) return undefined;
  const numbers = flatNumbers(withNumbers(value), "/");
  const texts = Object.keys(value).filter((name) => typeof value[name] === "string");
  const fields = fieldsOf(dialect, numbers, episodes);
  if (fields === undefined || !hasLostStep(numbers, texts)) return fields;
  why.unread = "step";
  return undefined;
}

/**
 * A step may be a text (`"100"`, `"1k"`). Transformers 5 prints all its numbers as texts: they are,
 * if every text is one.
 */
function withNumbers(value: { [key: string]: ParamValue }): { [key: string]: ParamValue } {
  const entries = Object.entries(value);
  if (!entries.some(([, v]) => typeof v === "string")) return value;
  const read = entries.map(([key, v]): [string, ParamValue] => {
    if (typeof v !== "string") return [key, v];
    return [key, (LINE_STEP_NAMES.includes(key) ? peopleNumber(v)?.value : numberOfText(v)) ?? v];
  });
  const isAll = !read.some(([, v]) => typeof v === "string");
  return Object.fromEntries(
    isAll ? read : entries.map((one, i) => LINE_STEP_NAMES.includes(one[0]) ? read[i]! : one),
  );
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
 * The line consists of `key=value` pairs after an optional short beginning, with at least two
 * pairs, or a step among them. After a beginning, a step or an episode must be among them.
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
    // `10/100`, `1k`, `"7"`: a number for people.
    else if (/^["'\d+.-]/.test(found[2]!)) return undefined;
    else if (LINE_STEP_NAMES.includes(found[1]!)) return undefined;
  }
  if (numbers.size === 0 || (pairs < 2 && !LINE_STEP_NAMES.some((name) => numbers.has(name)))) {
    return undefined;
  }
  // After a beginning, only pairs with a step or an episode are surely a record; others may be
  // settings.
  if (start !== "" && !PLACE_NAMES.some((name) => numbers.has(name))) return undefined;
  if (hasLostStep(numbers)) return undefined;
  return fieldsOf("key_value", numbers, episodes);
}

/** `12.0`, `[12.]`, `[[ 9.]]`: one number. */
function numberOfPair(text: string): number | undefined {
  return numberOfText(text) ?? (text[0] === "[" ? numberOfValue(literalOf(text)) : undefined);
}
