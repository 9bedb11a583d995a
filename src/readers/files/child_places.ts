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
/** A resumed run of W&B has a second directory, and the same id. */
const WANDB = /^(.*)\/(?:offline-)?run-\d{8}_\d{6}-([\w-]{1,128})\/[^/]+\.wandb$/;

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
