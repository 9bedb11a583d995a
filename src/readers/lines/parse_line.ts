/**
 * Reads one line of a worker's standard output as a record. Pure: the same text and context give
 * the same record. "other": the program's own output; a line that is not a JSON object, or an
 * object without a known kind. "malformed": a line that looks like telemetry and cannot be read; it
 * begins like an object with a quoted key and is not JSON, or a field that must be a number is not.
 */
import { isTooDeep, MAX_JSON_DEPTH } from "../../base/text/json_text.ts";
import type { LineContext } from "../../gen/records/line_fields.ts";
import { readEpisode } from "./episode.ts";
import { readEvent } from "./event.ts";
import { Fields } from "./fields.ts";
import { OPEN_BRACE } from "./json_scan.ts";
import { kindOf } from "./kinds.ts";
import { Lines } from "./lines.ts";
import { SLOT } from "./slots.ts";
import type { AlikeStep, ParsedLine, RecordCheck } from "./parsed_line.ts";
import { readStep } from "./step.ts";
import type { StepShapes } from "./step_shapes.ts";

export type { LineContext };

const OTHER: ParsedLine = { type: "other" };
const BLANK: ParsedLine = { type: "blank" };
const NO_VIOLATIONS: readonly string[] = [];
const KIND_SLOTS = [SLOT.type, SLOT.event_type, SLOT.event];
const fields = new Fields();

/** @param text one line without its newline. */
export function parseLine(text: string, context: LineContext, check?: RecordCheck): ParsedLine {
  return readLine(Lines.of(text), 0, context, check);
}

/** Line `i` of the lines. White space around it is ignored. */
export function readLine(
  lines: Lines,
  i: number,
  context: LineContext,
  check?: RecordCheck,
): ParsedLine;
/** @param shapes shapes of earlier lines with the same context */
export function readLine(
  lines: Lines,
  i: number,
  context: LineContext,
  check: RecordCheck | undefined,
  shapes: StepShapes,
): ParsedLine | AlikeStep;
export function readLine(
  lines: Lines,
  i: number,
  context: LineContext,
  check?: RecordCheck,
  shapes?: StepShapes,
): ParsedLine | AlikeStep {
  const from = lines.begin(i);
  const end = lines.ends[i]!;
  if (lines.bytes[from] === OPEN_BRACE) {
    if (shapes === undefined || check !== undefined) {
      return readObject(lines, from, end, context, check);
    }
    const like = shapes.read(lines, from, end);
    if (like !== undefined) return like;
    const parsed = readObject(lines, from, end, context, check);
    if (parsed.type === "step") shapes.learn(fields, lines, from, end, parsed);
    return parsed;
  }
  // The byte order mark counts as white space in trim().
  const text = lines.slice(from, end).trim();
  if (text.charCodeAt(0) === OPEN_BRACE) return parseLine(text, context, check);
  return text === "" ? BLANK : OTHER;
}

function readObject(
  lines: Lines,
  from: number,
  end: number,
  context: LineContext,
  check: RecordCheck | undefined,
): ParsedLine {
  if (!fields.load(lines, from, end)) {
    const text = lines.slice(from, end);
    if (!/^\{\s*(?:"|$)/.test(text)) return OTHER;
    return {
      type: "malformed",
      why: isTooDeep(text) ? `more than ${MAX_JSON_DEPTH} levels deep` : "not valid JSON",
    };
  }
  for (const slot of KIND_SLOTS) {
    const value = fields.isText(slot) ? fields.value(slot) as string : "";
    if (value !== "") return readRecord(slot, value.toLowerCase(), context, check);
  }
  return OTHER;
}

function readRecord(
  slot: number,
  name: string,
  context: LineContext,
  check: RecordCheck | undefined,
): ParsedLine {
  const kind = kindOf(name);
  if (kind === undefined || kind === "chatter") return OTHER;
  fields.take(slot);
  if (kind === "event") return { type: "event", event: readEvent(fields, name) };
  const violations = check === undefined ? NO_VIOLATIONS : check(kind, fields.record());
  if (kind === "step") {
    const step = readStep(fields, context);
    return typeof step === "string"
      ? { type: "malformed", why: step }
      : { type: "step", step, violations };
  }
  const episode = readEpisode(fields, context);
  return typeof episode === "string"
    ? { type: "malformed", why: episode }
    : { type: "episode", episode, violations };
}
