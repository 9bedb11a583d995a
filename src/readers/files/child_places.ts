/**
 * Which experiment of a program a tracker's file belongs to, if the program has several: a trial of
 * Ray Tune, a job of Hydra's multirun, a run of W&B. By the file's path, as these tools write it;
 * nothing is opened. Pure.
 */

export interface ChildPlace {
  /** Identifies it within the program: a directory. */
  key: string;
  /** The same for each attempt that makes it. */
  name: string;
  /** One of a kind in a program is the program's own run, not a child. */
  aloneIsParent: boolean;
}

/**
 * train_cartpole_1a2b3_00004_4_lr=0.0010_2026-01-01_12-00-00: the trainable, an id of the
 * experiment, the trial's number.
 */
const TUNE = /^(.{1,200}?)_([0-9a-f]{5,8})_(\d{5})(?:_.{0,250})?$/;
/** multirun/2026-01-01/12-00-00/3, or a sweep.dir of one's own with the job's number. */
const HYDRA = /^(.*\/multirun(?:\/[^/]+){0,4})\/(\d{1,6})(?:\/|$)/;
/** A resumed run of W&B has a second directory, and the same id in the file's name. */
const WANDB = /^(.*)\/(?:offline-)?run-\d{8}_\d{6}-[\w-]{1,140}\/run-([\w-]{1,128})\.wandb$/;
/** `add_hparams` names its directory by the time. */
const PARAMETERS = /^\d{9,}\.\d+$/;

/** @param path absolute */
export function childPlaceOf(path: string): ChildPlace | undefined {
  const wandb = WANDB.exec(path);
  if (wandb !== null) {
    return { key: `${wandb[1]}/${wandb[2]}`, name: wandb[2]!, aloneIsParent: true };
  }
  const parts = path.split("/");
  for (let i = parts.length - 2; i > 0; i--) {
    const trial = TUNE.exec(parts[i]!);
    if (trial !== null) {
      return {
        key: parts.slice(0, i + 1).join("/"),
        name: `${trial[1]}-${Number(trial[3])}`,
        aloneIsParent: false,
      };
    }
  }
  const job = HYDRA.exec(path);
  return job === null
    ? undefined
    : { key: `${job[1]}/${job[2]}`, name: String(Number(job[2])), aloneIsParent: false };
}

const above = (path: string) => path.slice(0, path.lastIndexOf("/"));
const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** The directories of an event file in which its writer may be known, the innermost first. */
export function writerDirectories(path: string): string[] {
  if (!nameOf(path).includes(".tfevents.")) return [];
  const inner = above(path);
  return [inner, above(inner), above(above(inner))].filter((directory) => directory !== "");
}

/**
 * A program that tells TensorBoard its parameters at the end of each trial (`add_hparams`) has a
 * writer for each trial, or one for all: the trial of an event file that is new.
 * @param earlier files of the same attempt
 * @returns undefined: the file belongs to the run itself
 */
export function writerPlaceOf(path: string, earlier: readonly string[]): ChildPlace | undefined {
  const inner = above(path);
  const isParameters = PARAMETERS.test(nameOf(inner));
  const writer = isParameters ? above(inner) : inner;
  const known = new Set(
    earlier.filter((one) => nameOf(one).includes(".tfevents.")).map(above),
  );
  if (known.has(inner)) return undefined;
  const ended = [...known].filter((one) => PARAMETERS.test(nameOf(one))).map(above);
  const own = ended.filter((one) => one === writer).length;
  if (own > 0) {
    return isParameters
      ? { key: inner, name: `hparams-${own + 1}`, aloneIsParent: true }
      : undefined;
  }
  if (known.has(writer) || !ended.some((one) => above(one) === above(writer))) return undefined;
  return { key: writer, name: nameOf(writer), aloneIsParent: true };
}

/** Whether the file has what `add_hparams` writes, which a program calls when a trial ends. */
export const isEndOfTrial = (path: string) => PARAMETERS.test(nameOf(above(path)));

/** The ends of trials come first, by their time: other files may be those of the next trial. */
export function compareEnds(a: string, b: string): number {
  const at = (path: string) => isEndOfTrial(path) ? Number(nameOf(above(path))) : Infinity;
  const [x, y] = [at(a), at(b)];
  return x === y ? 0 : x - y;
}
