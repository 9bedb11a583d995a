/**
 * One line of a worker's standard output as what it means. Pure: the same text and context give the same record.
 *
 * A line that is not a JSON object, or a JSON object that says nothing known, is the program's own output ("other").
 * "malformed" is what was meant as telemetry and cannot be read: it begins like an object with a quoted key and is no
 * JSON, or a field that must be a number is none.
 */
import type { EpisodeRecord, StepRecord, WorkerEventRecord } from "../batch.ts";
import { readEpisode } from "./episode.ts";
import { readEvent } from "./event.ts";
import { Fields, SLOT } from "./fields.ts";
import { kindOf } from "./kinds.ts";
import { type LineContext, readStep } from "./step.ts";
import { parseTolerantly } from "./tolerant.ts";

export type { LineContext };

/** Rules of the run's telemetry schema that a record breaks; see src/telemetry/schemas. */
export type RecordCheck = (kind: "step" | "episode", record: Record<string, unknown>) => readonly string[];

export type ParsedLine =
  | { type: "step"; step: StepRecord; violations: readonly string[] }
  | { type: "episode"; episode: EpisodeRecord; violations: readonly string[] }
  | { type: "event"; event: WorkerEventRecord }
  | { type: "other" }
  | { type: "malformed"; why: string };

const OTHER: ParsedLine = { type: "other" };
const NO_VIOLATIONS: readonly string[] = [];
const fields = new Fields();

/** @param text One line without its newline; white space around it is ignored. */
export function parseLine(text: string, context: LineContext, check?: RecordCheck): ParsedLine {
  // The byte order mark counts as white space in trim(), and `{` is by far the most frequent beginning.
  let line = text.charCodeAt(0) === 123 ? text : text.trim();
  if (line.charCodeAt(0) !== 123) return OTHER;
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    const tolerant = parseTolerantly(line);
    if (tolerant === undefined) {
      return /^\{\s*(?:"|$)/.test(line) ? { type: "malformed", why: "not valid JSON" } : OTHER;
    }
    ({ line, record } = tolerant);
  }
  return readRecord(line, record as Record<string, unknown>, context, check);
}

function readRecord(
  line: string,
  record: Record<string, unknown>,
  context: LineContext,
  check: RecordCheck | undefined,
): ParsedLine {
  fields.load(line, record);
  const slot = kindSlot();
  if (slot === undefined) return OTHER;
  const name = (fields.value(slot) as string).toLowerCase();
  const kind = kindOf(name);
  if (kind === undefined || kind === "chatter") return OTHER;
  fields.take(slot);
  if (kind === "event") return { type: "event", event: readEvent(fields, name) };
  const violations = check === undefined ? NO_VIOLATIONS : check(kind, record);
  if (kind === "step") {
    const step = readStep(fields, context);
    return typeof step === "string" ? { type: "malformed", why: step } : { type: "step", step, violations };
  }
  const episode = readEpisode(fields, context);
  return typeof episode === "string" ? { type: "malformed", why: episode } : { type: "episode", episode, violations };
}

function kindSlot(): number | undefined {
  for (const slot of KIND_SLOTS) {
    const value = fields.value(slot);
    if (typeof value === "string" && value !== "") return slot;
  }
  return undefined;
}
const KIND_SLOTS = [SLOT.type, SLOT.event_type, SLOT.event];
