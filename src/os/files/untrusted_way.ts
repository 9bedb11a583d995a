/**
 * The directories on the way to a file that a worker can change.
 *
 * The runtime has no openat. Under a permission set it also refuses /proc/self/fd and /dev/fd,
 * makes every relative path absolute before the kernel sees it, and compares the text of a path
 * with the set before it follows the path's links. So each component is looked at before and after
 * a use, by inode. That does not suffice against a program that exchanges a directory and a link
 * all the time: it may put the directory back for each look. Therefore a way counts only if none of
 * its directories has changed for a while; else a shell enters the directory and asks the kernel
 * where it is.
 */
import { MosaicError } from "../../base/errors.ts";
import { OWN_DIRECTORIES } from "../../base/layout.ts";
import { parentOf } from "./files.ts";
import { shellOutput } from "../processes/shell.ts";

/** More than a tick of any clock of a file system. */
const SETTLED_MS = 2000;

export function notRegular(path: string): MosaicError {
  return new MosaicError(
    "permission_denied",
    `${path} is not a regular file in its run's directory`,
    {
      hint:
        "The run's worker has replaced it (by a link, a FIFO, a directory); mosaic does not open it.",
    },
  );
}

export interface Identity {
  dev: number;
  ino: number | null;
}

export function isSame(a: Identity | undefined, b: Identity): boolean {
  return a !== undefined && a.dev === b.dev && a.ino === b.ino;
}

/**
 * Where a path begins that a worker can change.
 *
 * "own": the path is in one of the run's directories that no worker with fewer rights than mosaic
 * can change or replace: for a user of its own the run's directory is sticky, for a sandbox they
 * are other mounts.
 */
export interface Start {
  below: string;
  own: boolean;
}

/**
 * @param below the directory that no worker replaces; undefined for a file of mosaic's own, see
 * `Start`
 */
export function startOf(path: string, below: string | undefined): Start {
  if (below !== undefined) return { below, own: false };
  const directory = parentOf(path);
  const isIn = OWN_DIRECTORIES.includes(directory.slice(directory.lastIndexOf("/") + 1));
  return { below: isIn ? parentOf(directory) : directory, own: true };
}

type Step = Identity & { path: string; changedAt: number };

/**
 * From `below` to the directory of the path. @throws `permission_denied` if one is no directory;
 * NotFound
 */
function stepsTo(path: string, below: string): Step[] {
  const steps: Step[] = [];
  for (let at = parentOf(path); at.length > below.length; at = parentOf(at)) {
    const info = Deno.lstatSync(at);
    if (!info.isDirectory) throw notRegular(path);
    steps.unshift({
      path: at,
      dev: info.dev,
      ino: info.ino,
      changedAt: info.ctime?.getTime() ?? Infinity,
    });
  }
  if (steps.length === 0) return [];
  // `below` itself may be named by a link, for example a working directory.
  const { dev, ino, ctime } = Deno.statSync(below);
  return [{ path: below, dev, ino, changedAt: ctime?.getTime() ?? Infinity }, ...steps];
}

/** What is at a path now, and the way to it. */
export interface Place {
  info: Deno.FileInfo;
  /**
   * The directories whose entries lead to it, without the last one: the last one's entry is `info`.
   */
  steps: Step[];
}

/**
 * Undefined if there is nothing. @throws MosaicError `permission_denied` for a way through a link
 */
export function placeOf(path: string, { below, own }: Start): Place | undefined {
  try {
    const steps = stepsTo(path, below);
    return { info: Deno.lstatSync(path), steps: own ? [] : steps.slice(0, -1) };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Whether `opened` is what the path names, reached through no link.
 * @param before the place before it was opened; undefined if the file was created
 */
export function isInPlace(
  path: string,
  start: Start,
  before: Place | undefined,
  opened: Identity,
): boolean {
  const after = placeOf(path, start);
  if (after === undefined || !isSame(after.info, opened)) return false;
  if (before !== undefined && !isSame(before.info, opened)) return false;
  if (after.steps.length === 0) return true;
  const longAgo = Date.now() - SETTLED_MS;
  const isSettled = before !== undefined && after.steps.every((step, i) => {
    const earlier = before.steps[i];
    return isSame(earlier, step) && earlier!.changedAt === step.changedAt &&
      step.changedAt < longAgo;
  });
  return isSettled ||
    inPlace(path, start.below, 'stat -c "%d:%i" -- "./$2"')?.trim() ===
      `${opened.dev}:${opened.ino}`;
}

/**
 * `$0` is the directory, `$1` where it must be. A working directory cannot be exchanged. dash and
 * BusyBox ask the kernel for PWD after `cd -P`; bash and others compute it from the text, so there
 * a program asks.
 */
const ENTER =
  'cd -P -- "$0" || exit; [ -z "$BASH_VERSION$KSH_VERSION$ZSH_VERSION" ] || PWD=$(env pwd -P); ' +
  '[ "$PWD" = "$1" ] || exit; ';

/**
 * Runs a shell script in the directory of a path: `$2` is the path's name there, the words follow.
 * @returns its output; undefined if it fails, or the directory is not where its path says
 */
export function inPlace(
  path: string,
  below: string,
  script: string,
  ...words: string[]
): string | undefined {
  const directory = parentOf(path);
  const real = Deno.realPathSync(below).replace(/\/$/, "") +
    directory.slice(below.replace(/\/$/, "").length);
  return shellOutput(
    ENTER + script,
    directory,
    real,
    path.slice(directory.length + (directory === "/" ? 0 : 1)),
    ...words,
  );
}

/** Whether entries of directories below `start` lead to the path, which a worker may exchange. */
export function isExchangeable(path: string, { below, own }: Start): boolean {
  return !own && parentOf(path).length > below.length;
}
