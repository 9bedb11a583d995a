/** Finds runs below a directory, by the names of trackers' files. */
import { fileKindOf, HYDRA, isOfTracker, trackerTitles, withoutCopies } from "../formats.ts";
import { infoIfThere } from "../../os/files/files.ts";
import { MosaicError } from "../../base/errors.ts";
import { type FoundRun, withParts } from "./parts_of_runs.ts";
import { hasItsFormat, isReadable } from "./read.ts";
import { type PlacedRun, withPrograms } from "./trials.ts";

export type { FoundRun };

export interface Found {
  runs: PlacedRun[];
  /** Directories that could not be read, and why. */
  skipped: string[];
}

/** All files are open while their run is read. */
const MAX_FILES_PER_RUN = 256;

/**
 * The runs among the files of one directory: each file that stands alone is one, all others
 * together are another.
 */
function runsAmong(directory: string, names: readonly string[]): FoundRun[] {
  const path = (name: string) => `${directory === "/" ? "" : directory}/${name}`;
  const known = withoutCopies(
    names.filter((name) => isOfTracker(path(name)) && hasItsFormat(path(name))).sort(),
  );
  const isAlone = (name: string) => fileKindOf(name)?.alone === true;
  const logs = known.filter(isAlone);
  const others = known.filter((name) => !isAlone(name));
  // Parameters without a curve are no run.
  if (others.every((name) => fileKindOf(path(name))?.accompanies === true)) others.length = 0;
  return [...logs.map((name) => [name]), ...(others.length === 0 ? [] : [others])]
    .map((files) => ({ directory, files: files.map(path) }));
}

/**
 * @param path a directory, or one file
 * @param depth how many levels below a directory are searched. Links are not followed, except
 * `path` itself.
 * @throws MosaicError `not_found`; `invalid_argument` for a file without a reader, a pipe or a
 * device
 */
export function findRuns(path: string, depth: number): Found {
  let real: string;
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(path);
    // The real path of a pipe, such as of <(command), is no path.
    if (!info.isFile && !info.isDirectory) throw noFile(path);
    real = Deno.realPathSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new MosaicError("not_found", `${path}: there is no such file or directory`, {
      cause: error,
    });
  }
  if (info.isFile) return { runs: [oneFile(real)], skipped: [] };
  const found: Found = { runs: [], skipped: [] };
  search(real, depth, found);
  found.runs = withPrograms(withParts(found.runs, MAX_FILES_PER_RUN), real, MAX_FILES_PER_RUN);
  if (found.runs.length > 0) return found;
  throw new MosaicError(
    "not_found",
    `${path}: no files of trackers in it or ${depth} levels below it`,
    {
      hint: `${trackerTitles()} are searched for; ` +
        "name another table or JSON Lines file itself, or give --depth.",
    },
  );
}

function noFile(path: string): MosaicError {
  return new MosaicError("invalid_argument", `${path} is a pipe or a device, not a file`, {
    hint:
      "The daemon reads the files again later: save what it contains as a file, and import that.",
  });
}

function oneFile(path: string): FoundRun {
  if (!isReadable(path)) {
    throw new MosaicError(
      "invalid_argument",
      `${path}: its name matches no format that mosaic reads`,
      {
        hint:
          "It reads *.tfevents.*, *.wandb, *.csv, *.jsonl, progress*.json, result.json, and what a program printed as " +
          "*.log, *.out or *.txt (docs/reference/formats.md).",
      },
    );
  }
  return { directory: path.slice(0, path.lastIndexOf("/")) || "/", files: [path] };
}

function search(directory: string, depth: number, found: Found): void {
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(directory)];
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    found.skipped.push(`${directory}: ${error instanceof Error ? error.message : error}`);
    return;
  }
  const hydra = entries.some(({ name, isDirectory }) => name === HYDRA && isDirectory)
    ? [`${HYDRA}/config.yaml`]
    : [];
  const names = entries.filter((entry) => entry.isFile).map(({ name }) => name);
  const runs = runsAmong(directory, [
    ...names,
    ...hydra.filter((name) => infoIfThere(`${directory}/${name}`)?.isFile === true),
  ]);
  for (const run of runs) {
    if (run.files.length <= MAX_FILES_PER_RUN) found.runs.push(run);
    else {found.skipped.push(
        `${directory}: ${run.files.length} files; at most ${MAX_FILES_PER_RUN} make one run`,
      );}
  }
  // Below a W&B run are only its own files, including links to event files that its log already
  // contains.
  if (depth === 0 || runs.some(({ files }) => fileKindOf(files[0]!)?.alone === true)) return;
  const below = entries.filter((entry) => entry.isDirectory).map(({ name }) => name).sort();
  for (const name of below) {
    search(`${directory === "/" ? "" : directory}/${name}`, depth - 1, found);
  }
}
