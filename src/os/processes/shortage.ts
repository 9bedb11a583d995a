/**
 * Machine errors (disk full, out of descriptors …): which are temporary, and how to explain them.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";

/** By errno, which Deno puts into its messages: "No space left on device (os error 28)". */
const TROUBLE: Record<number, [what: string, hint: string]> = {
  5: ["an input/output error", "Read the kernel's log for errors of the disk."],
  11: ["no process can be created", "End processes, or raise the limit of processes (ulimit -u)."],
  12: ["no memory is left", "End processes that use much of it."],
  13: [
    "no permission to write",
    "Correct owner and mode: the daemon's user must be able to write there.",
  ],
  23: ["the host has no file descriptor left", "End processes, or raise fs.file-max."],
  24: ["no file descriptor is left", "Start the daemon with a higher limit (ulimit -n)."],
  28: ["the disk is full", "Free space (mosaic prune removes ended runs); work then continues."],
  30: [
    "the file system is read-only",
    "Mount it writable; work then continues. If the kernel refuses that: umount -l (daemon and runs then end by themselves), check, mount, start the daemon.",
  ],
  107: [
    "the file system is not connected: its server has ended",
    "Mount it again, then start the daemon again.",
  ],
  116: [
    "the file is gone on the file system's server (a stale handle)",
    "Mount it again, then start the daemon again.",
  ],
  122: ["the disk quota is used up", "Free space or raise the quota; work then continues."],
};

/** Temporary errors: they end without a change of the configuration. */
const TEMPORARY = new Set([11, 12, 23, 24, 28, 30, 122]);
const DESCRIPTORS = new Set([23, 24]);
const DISCONNECTED = new Set([107, 116]);
/** Errors of a file system that no freed space mends. */
const FAILED = new Set([5, 30, 107, 116]);

function numberOf(error: unknown): number {
  return Number(/\(os error (\d+)\)/.exec(messageOf(error))?.[1] ?? 0);
}

/**
 * Whether the error is a temporary shortage: no space, descriptors, memory or processes, or a
 * database that cannot be written.
 */
export function isShortage(error: unknown): boolean {
  if (error instanceof MosaicError) return error.code === "unavailable";
  return TEMPORARY.has(numberOf(error));
}

/**
 * Whether the server of the file system has ended, or has another file by now: an open file of it
 * is lost for good.
 */
export function isDisconnected(error: unknown): boolean {
  return DISCONNECTED.has(numberOf(error));
}

/** Whether the file system takes no writes for another reason than space or rights. */
export function isFailed(error: unknown): boolean {
  return FAILED.has(numberOf(error));
}

/** Whether no file descriptor is left, in this process or on the host. */
export function lacksDescriptors(error: unknown): boolean {
  return DESCRIPTORS.has(numberOf(error));
}

/** What a machine error means, and what to do; undefined for other errors. */
export function troubleOf(error: unknown): readonly [what: string, hint: string] | undefined {
  return error instanceof MosaicError ? undefined : TROUBLE[numberOf(error)];
}

/**
 * Converts a machine error to `unavailable` ("cannot WHAT: the disk is full"); returns other errors
 * unchanged.
 */
export function explainShortage(error: unknown, what: string): unknown {
  const trouble = troubleOf(error);
  if (trouble === undefined) return error;
  return new MosaicError("unavailable", `cannot ${what}: ${trouble[0]}`, {
    hint: trouble[1],
    cause: error,
  });
}
