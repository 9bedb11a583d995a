/**
 * The result of an evaluation: the `eval_summary.json` of its run, written by its worker or at the
 * run's end.
 */
import type { RunDetail } from "../../dispatch/core/core.ts";
import { openWithin } from "./artifact_file.ts";
import { MosaicError } from "../../base/errors.ts";
import { parsed } from "../../records/json_values.ts";

const EVAL_SUMMARY = "eval_summary.json";
/** The original's has ten numbers; a worker's own may have more, within this bound. */
const MAX_BYTES = 64 * 1024;

/**
 * The summary's JSON; null while there is none, and for runs that are no evaluation. @throws
 * `out_of_range`
 */
export async function evalSummary(detail: RunDetail): Promise<unknown> {
  if (detail.row.baseDir !== "evals") return null;
  using file = openWithin(detail.directory, EVAL_SUMMARY);
  if (file === undefined) return null;
  const bytes = new Uint8Array(MAX_BYTES + 1);
  const length = await file.read(0, bytes);
  if (length > MAX_BYTES) {
    throw new MosaicError(
      "out_of_range",
      `${EVAL_SUMMARY} of the run is larger than ${MAX_BYTES} bytes`,
    );
  }
  return parsed(new TextDecoder().decode(bytes.subarray(0, length)));
}
