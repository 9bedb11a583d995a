/** Writes pictures and sounds that are embedded in a tracker's files as files of the run. */
import { messageOf } from "../../base/errors.ts";
import { writeRecord } from "../../os/files/untrusted_changes.ts";
import type { Embedded } from "./source_records.ts";
import { entriesOf, infoOf } from "../../os/files/untrusted.ts";

const MAX_FILES = 1000;
const MAX_BYTES = 4 << 20;

/**
 * Writes one below the run's directory; the same record always gives the same file.
 * @returns its path in the run's directory; undefined if it is not kept
 */
export function keepMedia(
  runDirectory: string,
  { media, tag, step, index, type, bytes }: Embedded,
  onProblem: (detail: string) => void,
): string | undefined {
  if (bytes.length > MAX_BYTES) return undefined;
  const directory = `${runDirectory}/media`;
  const name = `${tag.replace(/[^\w.-]+/g, "_").slice(0, 80)}-${step ?? 0}-${index}.${
    suffixOf(type) ?? media
  }`;
  try {
    // Made before the worker started (OWN_DIRECTORIES): afterwards the worker could have put its
    // own in its place.
    if (
      infoOf(`${directory}/${name}`) === undefined &&
      entriesOf(directory, runDirectory).length >= MAX_FILES
    ) {
      onProblem(`more than ${MAX_FILES} pictures and sounds: further ones are not kept`);
      return undefined;
    }
    writeRecord(`${directory}/${name}`, bytes);
    return `media/${name}`;
  } catch (error) {
    onProblem(`pictures and sounds are not kept: ${messageOf(error)}`);
    return undefined;
  }
}

/** The type may be a worker's own text. */
function suffixOf(type: string): string | undefined {
  return /^(?:image|audio|video)\/(?:x-)?(png|jpeg|gif|webp|wav|ogg|opus|mpeg|flac|aac|mp4|webm)$/
    .exec(type)?.[1];
}
