/**
 * Joins what one writer has spread over directories: `add_scalars` and `add_hparams` make
 * sub-directories beside their run's event file, Keras writes `train` and `validation`, and a
 * resumed W&B run begins a new log. Live they are one run, so they are one when imported. Pure.
 */
import { childPlaceOf, isEndOfTrial } from "../files/child_places.ts";
import { fileKindOf, processOfEvents, trainerDirectoryOf } from "../formats.ts";
import { natural } from "../../base/text/natural_order.ts";

/** The files of one run. */
export interface FoundRun {
  directory: string;
  /** Absolute paths. */
  files: string[];
}

/** Directories of one run's parts, which have no file between them. */
const PARTS = /^(?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test)$/i;

const parentOf = (directory: string) => directory.slice(0, directory.lastIndexOf("/")) || "/";
const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
const isOfEvents = ({ files }: FoundRun) =>
  files.every((file) => nameOf(file).includes(".tfevents."));

/** The processes that wrote a run's event files, as far as their names say. */
function processesOf({ files }: FoundRun): Set<string> {
  return new Set(
    files.map((file) => processOfEvents(nameOf(file))).filter((one) => one !== undefined),
  );
}

function isPartOf(part: FoundRun, whole: FoundRun): boolean {
  const [of, by] = [processesOf(part), processesOf(whole)];
  if (of.size > 0 && by.size > 0) return [...of].some((one) => by.has(one));
  const name = nameOf(part.directory);
  return PARTS.test(name) || isEndOfTrial(part.files[0]!);
}

/** @param most files of one run: parts that would make more stay runs of their own */
export function withParts(all: readonly FoundRun[], most: number): FoundRun[] {
  const runs = ofTrainers(all);
  const joined = new Map<string, FoundRun>();
  const others: FoundRun[] = [];
  // Directories before what is below them, so that a part of a part belongs to the whole.
  const wholeOf = new Map<string, FoundRun>();
  for (let run of runs.toSorted((a, b) => a.directory < b.directory ? -1 : 1)) {
    // Parts add their files to it.
    run = { ...run, files: [...run.files] };
    if (!isOfEvents(run)) {
      if (run.files.some((file) => nameOf(file).includes(".tfevents."))) {
        wholeOf.set(run.directory, run);
      }
      others.push(run);
      continue;
    }
    const whole = wholeOf.get(parentOf(run.directory));
    if (
      whole !== undefined && whole.files.length + run.files.length <= most && isPartOf(run, whole)
    ) {
      whole.files.push(...run.files);
      wholeOf.set(run.directory, whole);
      continue;
    }
    wholeOf.set(run.directory, run);
    joined.set(run.directory, run);
  }
  const whole = withResumed(others, most);
  const order = new Map(runs.flatMap(({ files }) => files).map((file, i) => [file, i]));
  return [...whole, ...withoutHalves([...joined.values()], most)]
    .sort((a, b) => order.get(a.files[0]!)! - order.get(b.files[0]!)!);
}

const isOfTrainer = (file: string) => fileKindOf(file)?.format.startsWith("train") === true;

/**
 * What Transformers' Trainer writes in each checkpoint repeats what the earlier ones have: the
 * newest is the Trainer's run; its event files have the same numbers.
 */
function ofTrainers(runs: readonly FoundRun[]): FoundRun[] {
  const trainers: FoundRun[] = [];
  const others: FoundRun[] = [];
  for (const { directory, files } of runs) {
    const own = files.filter(isOfTrainer);
    const rest = files.filter((file) => !isOfTrainer(file));
    if (own.length > 0) trainers.push({ directory, files: own });
    // Parameters of a run go with it.
    if (own.length > 0 && rest.every((file) => fileKindOf(file)?.accompanies === true)) {
      trainers.at(-1)!.files = files;
    } else if (rest.length > 0) others.push({ directory, files: rest });
  }
  const byTrainer = Map.groupBy(trainers, ({ directory }) => trainerDirectoryOf(directory));
  for (const [directory, repeated] of byTrainer) {
    const newest = repeated.find((run) => run.directory === directory) ??
      repeated.toSorted((a, b) => natural(b.directory, a.directory))[0]!;
    const hasEvents = others.some((run) =>
      isOfEvents(run) && `${run.directory}/`.startsWith(`${directory}/`)
    );
    if (!hasEvents) others.push({ directory, files: newest.files });
  }
  return others;
}

/** A W&B run that was resumed has a log in a second directory, with the same id. */
function withResumed(runs: readonly FoundRun[], most: number): FoundRun[] {
  const byId = Map.groupBy(runs, ({ files }) => {
    const place = childPlaceOf(files[0]!);
    return place?.aloneIsParent === true ? place.key : files[0]!;
  });
  return [...byId.values()].flatMap((parts) => {
    const files = parts.flatMap((part) => part.files);
    return files.length > most ? parts : [{ ...parts[0]!, files }];
  });
}

/** `train` and `validation` without a run in the directory above. */
function withoutHalves(runs: readonly FoundRun[], most: number): FoundRun[] {
  const halves = Map.groupBy(
    runs,
    ({ directory }) => PARTS.test(nameOf(directory)) ? parentOf(directory) : "",
  );
  return [...halves].flatMap(([directory, parts]) => {
    const files = parts.flatMap((part) => part.files);
    return directory === "" || parts.length < 2 || files.length > most
      ? parts
      : [{ directory, files }];
  });
}
