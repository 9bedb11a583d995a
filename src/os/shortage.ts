/** Trouble of the machine that passes: what runs short, and what that means to whoever asked for something. */
import { messageOf, MosaicError } from "../base/errors.ts";

/** By the number that the runtime puts into its messages: "No space left on device (os error 28)". */
const TROUBLE: Record<number, [what: string, hint: string]> = {
  5: ["an input/output error", "Look at the kernel's log for errors of the disk."],
  11: ["no process can be created just now", "End processes, or raise the limit of processes (ulimit -u)."],
  12: ["there is no memory left", "End processes that use much of it."],
  13: ["it may not be written", "Correct owner and mode: the daemon's user must be able to write there."],
  23: ["the host has no file descriptor left", "End processes, or raise fs.file-max."],
  24: ["no file descriptor is left", "Start the daemon with a higher limit (ulimit -n)."],
  28: ["the disk is full", "Free space (mosaic prune removes ended runs); work goes on by itself."],
  30: ["the file system is read-only", "Mount it for writing; work goes on by itself."],
  122: ["the disk quota is used up", "Free space or raise the quota; work goes on by itself."],
};

/** Those that pass without anybody's mistake being corrected first. */
const PASSING = new Set([11, 12, 23, 24, 28, 30, 122]);
const DESCRIPTORS = new Set([23, 24]);

function numberOf(error: unknown): number {
  return Number(/\(os error (\d+)\)/.exec(messageOf(error))?.[1] ?? 0);
}

/** No space, descriptors, memory or processes left, or a database that cannot be written now. */
export function isShortage(error: unknown): boolean {
  if (error instanceof MosaicError) return error.code === "unavailable";
  return PASSING.has(numberOf(error));
}

/** No file descriptor is left, here or on the whole host. */
export function lacksDescriptors(error: unknown): boolean {
  return DESCRIPTORS.has(numberOf(error));
}

/** The error as `unavailable` ("cannot WHAT: the disk is full"); anything but trouble of the machine as it is. */
export function explainTrouble(error: unknown, what: string): unknown {
  const trouble = error instanceof MosaicError ? undefined : TROUBLE[numberOf(error)];
  if (trouble === undefined) return error;
  return new MosaicError("unavailable", `cannot ${what}: ${trouble[0]}`, { hint: trouble[1], cause: error });
}
