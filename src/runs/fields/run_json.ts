/**
 * The one JSON of a run, for the command line, the page and exports: from what the daemon knows,
 * and from its messages.
 */
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { FieldJson, type Properties } from "./field_json.ts";
import { RUN_FIELDS, type RunField } from "./run_fields.ts";
import type { RunDetail, RunDetailJson, RunJson, RunRow, WholeRun } from "./run_types.ts";

const ALL: readonly RunField[] = RUN_FIELDS;
const SINGLE = new FieldJson(ALL);
const MANY = new FieldJson(ALL.filter(({ single }) => !single));

export function runJson(detail: RunDetail): RunJson {
  return MANY.json(detail);
}

export function runDetailJson(run: WholeRun): RunDetailJson {
  return SINGLE.json(run);
}

/** What creates a message of the run: with the fields of a single run if it has them. */
export function runMessage(detail: RunDetail | WholeRun): Properties {
  return ("transitions" in detail ? SINGLE : MANY).message(detail);
}

export function runJsonOf(message: Run): RunJson {
  return MANY.parsed(message);
}

export function runDetailJsonOf(message: Run): RunDetailJson {
  return SINGLE.parsed(message);
}

/**
 * Of a row that has the columns of an outline. A field is computed when it is read: very many runs
 * are, for one or two.
 */
class Outline {
  constructor(readonly detail: Properties) {}
}
for (const { json, read, jsonOf } of new FieldJson(ALL.filter(({ outline }) => outline)).fields) {
  Object.defineProperty(Outline.prototype, json, {
    get(this: Outline) {
      return jsonOf(read(this.detail, this.detail), this.detail);
    },
  });
}

export function outlineJson(outline: Partial<RunRow>): Partial<RunJson> {
  return new Outline({ row: outline }) as unknown as Partial<RunJson>;
}
