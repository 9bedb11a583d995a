/** Writes pictures and sounds that are embedded in a tracker's files as files of the run. */
import { messageOf } from "../../base/errors.ts";
import { infoIfThere } from "../../os/files.ts";
import { writeRecord } from "../../os/untrusted.ts";
import type { Embedded } from "./source_records.ts";

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
  const name = `${tag.replace(/[^\w.-]+/g, "_").slice(0, 80)}-${step ?? 0}-${index}.${type.split("/")[1] ?? media}`;
  try {
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    if (infoIfThere(`${directory}/${name}`) === undefined && [...Deno.readDirSync(directory)].length >= MAX_FILES) {
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
