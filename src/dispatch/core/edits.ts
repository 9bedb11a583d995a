/** Fields that people write: name, tags, notes. */
import { MosaicError } from "../../base/errors.ts";
import { LONGEST_NOTES, LONGEST_TAG, MOST_TAGS } from "../../base/field_limits.ts";
import { LONGEST_RUN_NAME } from "../../base/run_name.ts";
import type { RunPatch, RunRow } from "../../registry/row_types.ts";
import type { Edit } from "./core.ts";

/**
 * The fields that the change makes different. @throws MosaicError `invalid_argument` with the
 * field, its value and its bound
 */
export function editedFields(row: RunRow, change: Edit): Pick<RunPatch, "name" | "tags" | "notes"> {
  const { name = row.name, addTags = [], removeTags = [], notes = row.notes } = change;
  if (name.trim() === "" || name.length > LONGEST_RUN_NAME) {
    throw wrong("name", name, `must have 1 to ${LONGEST_RUN_NAME} characters`);
  }
  for (const tag of addTags) {
    if (tag.trim() === "" || tag.length > LONGEST_TAG) {
      throw wrong("add_tags", tag, `must have 1 to ${LONGEST_TAG} characters`);
    }
  }
  const tags = [...new Set([...row.tags.filter((tag) => !removeTags.includes(tag)), ...addTags])];
  if (tags.length > MOST_TAGS) {
    throw wrong("add_tags", `${tags.length} tags`, `must be ${MOST_TAGS} at most`);
  }
  if (notes.length > LONGEST_NOTES) {
    throw wrong("notes", `${notes.length} characters`, `must have ${LONGEST_NOTES} at most`);
  }
  return {
    ...(name === row.name ? {} : { name }),
    ...(JSON.stringify(tags) === JSON.stringify(row.tags) ? {} : { tags }),
    ...(notes === row.notes ? {} : { notes }),
  };
}

function wrong(field: string, value: string, rule: string): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `${field} is ${JSON.stringify(value.slice(0, 200))}; it ${rule}`,
  );
}
