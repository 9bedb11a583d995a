/**
 * Steps whose lines differ from an earlier line only in values, as nearly all lines of a worker do.
 * Such a line is compared with the earlier one byte by byte, and only values that may differ are
 * read, which costs a third of reading all fields. The result is the same as readStep's. A line
 * does not match if a value is not written plainly, or affects more than its own column: then it is
 * read field by field.
 */
import { ByteText } from "../../base/text/byte_text.ts";
import type { Field, Fields } from "./fields.ts";
import { afterNumber, afterScalar, afterValue, QUOTE, ZERO } from "./json_scan.ts";
import type { Lines } from "./lines.ts";
import type { AlikeStep, ParsedStep } from "./parsed_line.ts";
import { SLOT } from "./slots.ts";
import { nanosecondsOf, timeOf } from "./timestamps.ts";

/** Shapes in a batch: the last steps of episodes, and each of several agents, have their own. */
const MOST_SHAPES = 4;
/**
 * After this many failed comparisons, beyond the successful ones, no more lines of the batch are
 * compared.
 */
const MOST_MISSES = 64;
const [LITTLE_N, LITTLE_T] = [110, 116];
/** What the value at a hole becomes. */
type Hole =
  | "episode"
  | "step"
  | "reward"
  | "terminated"
  | "truncated"
  | "action"
  | "observation"
  | "nanoseconds"
  | "time"
  | "info";

const HOLES = new Map<number, Hole>([
  [SLOT.episode_index, "episode"],
  [SLOT.episode, "episode"],
  [SLOT.step_index, "step"],
  [SLOT.step, "step"],
  [SLOT.time_step, "step"],
  [SLOT.reward, "reward"],
  [SLOT.terminated, "terminated"],
  [SLOT.truncated, "truncated"],
  [SLOT.action, "action"],
  [SLOT.observation, "observation"],
  [SLOT.ts_unix_ns, "nanoseconds"],
  [SLOT.ts, "time"],
  [SLOT.timestamp, "time"],
]);
const TIMES: readonly number[] = [SLOT.ts_unix_ns, SLOT.ts, SLOT.timestamp];
/**
 * Lines with one of these names are not compared: the value affects more than its own column, or
 * its record must outlive the next line.
 */
const NEVER: readonly number[] = [
  ...[SLOT.metadata, SLOT.metadata_json, SLOT.action_json, SLOT.observation_json],
  ...[SLOT.render_payload, SLOT.render_payload_json],
];

/** The shapes of one batch's lines. */
export class StepShapes {
  readonly #shapes: Shape[] = [];
  #misses = 0;

  /**
   * The step of a line between two positions, valid until the next call; undefined if the line
   * matches no learned shape.
   */
  read(lines: Lines, from: number, end: number): AlikeStep | undefined {
    if (this.#misses > MOST_MISSES) return undefined;
    for (let i = 0; i < this.#shapes.length; i++) {
      const step = this.#shapes[i]!.read(lines, from, end);
      if (step === undefined) continue;
      if (this.#misses > 0) this.#misses--;
      return step;
    }
    return undefined;
  }

  /** @param fields fields of the line between two positions, from which the step was made */
  learn(fields: Fields, lines: Lines, from: number, end: number, parsed: ParsedStep): void {
    this.#misses++;
    if (this.#shapes.length === MOST_SHAPES) return;
    const layout = fields.layout();
    if (layout === undefined || layout.some(({ slot }) => NEVER.includes(slot))) return;
    this.#shapes.push(new Shape(layout, lines, from, end, parsed));
  }
}

class Shape {
  /** The bytes before each hole, and after the last one. */
  readonly #literals: Literal[] = [];
  readonly #holes: Hole[] = [];
  /**
   * For the record's further fields: the text before each of their holes, and after the last one.
   */
  readonly #info: string[] = [];
  /** The step of the line that was read last. */
  readonly #alike: AlikeStep;
  readonly #action = new ByteText();
  readonly #observation = new ByteText();

  constructor(
    layout: readonly Field[],
    lines: Lines,
    from: number,
    end: number,
    { step }: ParsedStep,
  ) {
    this.#alike = { type: "alike", step: { ...step } };
    const severalTimes = layout.filter(({ slot }) => TIMES.includes(slot)).length > 1;
    let literal = from;
    let info = "";
    let separator = "{";
    for (const { slot, key, value, valueEnd, taken } of layout) {
      // If this field is null, another one may have the value.
      const isFixed = lines.bytes[value] === LITTLE_N || (severalTimes && TIMES.includes(slot));
      const hole = isFixed ? undefined : slot === -1 ? "info" : taken ? HOLES.get(slot) : undefined;
      if (!taken) {
        info += separator + lines.slice(key, hole === undefined ? valueEnd : value);
        separator = ",";
      }
      if (hole === undefined) continue;
      if (hole === "info") {
        this.#info.push(info);
        info = "";
      }
      this.#literals.push(new Literal(lines.bytes.slice(literal, value)));
      this.#holes.push(hole);
      literal = valueEnd;
    }
    this.#info.push(`${info}}`);
    this.#literals.push(new Literal(lines.bytes.slice(literal, end)));
    if (this.#holes.includes("action")) this.#alike.step.actionJson = this.#action;
    if (this.#holes.includes("observation")) this.#alike.step.observationJson = this.#observation;
  }

  read(lines: Lines, from: number, end: number): AlikeStep | undefined {
    const { bytes, view } = lines;
    const holes = this.#holes;
    const { step } = this.#alike;
    let info = 0;
    let infoJson = "";
    let at = from;
    for (let h = 0; h < holes.length; h++) {
      at = this.#literals[h]!.after(view, at, end);
      if (at < 0) return undefined;
      const begin = at;
      switch (holes[h]!) {
        case "episode":
          at = afterIndex(bytes, at, end);
          step.episode = number;
          break;
        case "step":
          at = afterIndex(bytes, at, end);
          step.step = number;
          break;
        case "reward":
          at = afterReal(lines, at, end);
          step.reward = number;
          break;
        case "terminated":
          at = afterFlag(view, at, end);
          step.terminated = flag;
          break;
        case "truncated":
          at = afterFlag(view, at, end);
          step.truncated = flag;
          break;
        case "action":
          at = afterJson(bytes, at, end);
          this.#action.set(bytes, begin, at);
          break;
        case "observation":
          at = afterJson(bytes, at, end);
          this.#observation.set(bytes, begin, at);
          break;
        case "nanoseconds":
        case "time":
          at = afterScalar(bytes, at, end, false);
          if (at >= 0) step.tsNs = timeIn(lines.slice(begin, at), holes[h] === "time");
          if (step.tsNs === "") return undefined;
          break;
        case "info":
          at = afterValue(bytes, at, end, false);
          if (at >= 0) infoJson += this.#info[info++]! + lines.slice(begin, at);
      }
      if (at < 0) return undefined;
    }
    if (this.#literals[holes.length]!.after(view, at, end) !== end) return undefined;
    if (info > 0) step.infoJson = infoJson + this.#info[info]!;
    return this.#alike;
  }
}

/** Bytes that all lines of the shape share, compared four at a time. */
class Literal {
  readonly #length: number;
  readonly #words: Int32Array;
  readonly #rest: Uint8Array;

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#length = bytes.length;
    this.#words = Int32Array.from(
      { length: bytes.length >> 2 },
      (_, i) => view.getInt32(i * 4, true),
    );
    this.#rest = bytes.slice(this.#words.length * 4);
  }

  after(view: DataView, at: number, end: number): number {
    if (at + this.#length > end) return -1;
    const words = this.#words;
    const rest = this.#rest;
    let i = at;
    for (let w = 0; w < words.length; w++, i += 4) {
      if (view.getInt32(i, true) !== words[w]) return -1;
    }
    for (let r = 0; r < rest.length; r++, i++) if (view.getUint8(i) !== rest[r]) return -1;
    return i;
  }
}

const encoder = new TextEncoder();
const TRUE = new Literal(encoder.encode("true"));
const FALSE = new Literal(encoder.encode("false"));

/** A second result of the functions below, so that a value allocates nothing. */
let number = 0;
let flag = false;

function afterIndex(bytes: Uint8Array, at: number, end: number): number {
  let i = at;
  let whole = 0;
  for (; i < end; i++) {
    const digit = bytes[i]! - ZERO;
    if (digit < 0 || digit > 9) break;
    whole = whole * 10 + digit;
  }
  if (i === at || i - at > 15 || (bytes[at] === ZERO && i > at + 1)) return -1;
  number = whole;
  return i;
}

function afterReal(lines: Lines, at: number, end: number): number {
  const to = afterNumber(lines.bytes, at, end);
  if (to >= 0) number = lines.number(at, to);
  return to;
}

function afterFlag(view: DataView, at: number, end: number): number {
  const isTrue = at < end && view.getUint8(at) === LITTLE_T;
  flag = isTrue;
  return (isTrue ? TRUE : FALSE).after(view, at, end);
}

/** For null the record has no text. */
function afterJson(bytes: Uint8Array, at: number, end: number): number {
  return at < end && bytes[at] === LITTLE_N ? -1 : afterValue(bytes, at, end, false);
}

/** @param json a scalar @returns "" if it is no time */
function timeIn(json: string, anyUnit: boolean): string {
  const isText = json.charCodeAt(0) === QUOTE;
  if (isText && json.includes("\\")) return "";
  const text = isText ? json.slice(1, -1) : json;
  if (!anyUnit) return nanosecondsOf(isText ? text.trim() : text);
  return timeOf(isText ? text : Number(text), text);
}
