/** Which scalars can be stored: those with a step that is one, and a name that is not too long. */
import { MAX_NAME_LENGTH } from "../../records/points.ts";
import type { Problem } from "./format_reader.ts";
import type { SourceRecord } from "./tracker_records.ts";

const MOST_SHOWN = 60;

/** @param at position in the file @returns the others, and the problems of those that are left out */
export function placeable(
  records: SourceRecord[],
  at: number,
): { records: SourceRecord[]; problems: Problem[] } {
  const problems: Problem[] = [];
  const kept = records.filter((record) => {
    if (record.kind !== "scalar") return true;
    const { step, tag } = record;
    const isPlaced = step === undefined || (Number.isSafeInteger(step) && step >= 0);
    if (isPlaced && tag.length <= MAX_NAME_LENGTH) return true;
    problems.push(
      isPlaced
        ? {
          ...{ what: "no_name", at, bytes: 0 },
          detail: `points whose name has more than ${MAX_NAME_LENGTH} characters are left out: ` +
            `shorten it (as in "${tag.slice(0, MOST_SHOWN)}…")`,
        }
        : {
          ...{ what: "no_step", at, bytes: 0 },
          detail: "points whose step is not a whole number from 0 on are left out: log another " +
            `step (as in "${tag.slice(0, MOST_SHOWN)}" at ${
              Number.isNaN(step) ? "no number" : step
            })`,
        },
    );
    return false;
  });
  return { records: problems.length === 0 ? records : kept, problems };
}
