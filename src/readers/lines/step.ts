/** A step line of any dialect as a StepRecord. */
import { type LineContext, stepOfLine } from "../../gen/records/line_fields.ts";
import type { StepRecord } from "../../gen/records/record_types.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { parsedMetadata, TAKE } from "./take.ts";

function metadataOf(fields: Fields): unknown {
  if (!fields.has(SLOT.metadata_json) && !fields.has(SLOT.metadata)) return undefined;
  return parsedMetadata(fields.value(SLOT.metadata_json)) ??
    parsedMetadata(fields.value(SLOT.metadata));
}

/** @returns the record, or why the line is malformed. */
export function readStep(fields: Fields, context: LineContext): StepRecord | string {
  fields.take(SLOT.run_id);
  const record = stepOfLine(fields, TAKE, context, metadataOf(fields));
  if (typeof record === "string") return record;
  const leftovers = fields.leftovers();
  if (leftovers !== "") record.infoJson = `{${leftovers}}`;
  return record;
}
