/** Classifies SQLite failures for the callers. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { writeTrouble } from "../../os/files/write_trouble.ts";

/** SQLite's primary result code, from the error's code or (if the runtime gives none) its text. */
function primaryCode(error: unknown): number {
  // A trouble outside SQLite has no cause.
  const { errcode, message } = (error ?? {}) as { errcode?: number; message?: string };
  if (typeof errcode === "number") return errcode & 0xff;
  const text = String(message);
  if (/is full/.test(text)) return 13;
  if (/not a database/.test(text)) return 26;
  if (/malformed/.test(text)) return 11;
  if (/locked/.test(text)) return 5;
  if (/readonly|read-only/.test(text)) return 8;
  if (/unable to open/.test(text)) return 14;
  if (/I\/O error/.test(text)) return 10;
  return 0;
}

const TROUBLE: Record<number, [what: string, hint: string]> = {
  5: [
    "is locked by another program",
    "Close the program that writes to it; a second daemon must not use the same file.",
  ],
  6: ["is locked", "Close the program that writes to it."],
  8: [
    "cannot be written",
    "Check the owner and mode of the file and its directory, and whether the disk is read-only.",
  ],
  10: ["has an input/output error", "Check the disk (dmesg) and the free space."],
  11: [
    "is corrupt",
    "Stop the daemon and run: mosaic doctor --repair (it saves what can be read and keeps the damaged file).",
  ],
  13: [
    "cannot grow: the disk is full",
    "Free space on its disk, or delete runs; then work continues.",
  ],
  14: ["cannot be opened", "Check that its directory exists and may be written."],
  26: [
    "is not an SQLite database",
    "Stop the daemon and run: mosaic doctor --repair (it keeps the file beside a new database), or restore a copy.",
  ],
};

/** Codes behind which SQLite hides the operating system's error. */
const UNSAID = new Set([8, 10, 14]);

function causeOf(path: string): [what: string, hint: string] | undefined {
  const cause = writeTrouble(path);
  return cause && [`cannot be written: ${cause[0]}`, cause[1]];
}

/** A MosaicError for trouble of the machine or the file; undefined for a defect of the program. */
export function machineTrouble(error: unknown, path: string): MosaicError | undefined {
  const code = primaryCode(error);
  const trouble = UNSAID.has(code) ? causeOf(path) ?? TROUBLE[code] : TROUBLE[code];
  if (trouble === undefined) return undefined;
  return new MosaicError(
    "unavailable",
    `telemetry database ${path} ${trouble[0]} (${messageOf(error)})`,
    {
      hint: trouble[1],
      cause: error,
    },
  );
}

/** SQLITE_IOERR_SHMSIZE: no space for the memory that connections share. */
const NO_SHARED_MEMORY = 10 | (19 << 8);

/** Whether the disk was full. */
export function isFull(error: unknown): boolean {
  return primaryCode(error) === 13 ||
    (error as { errcode?: number } | undefined)?.errcode === NO_SHARED_MEMORY;
}

/** What a run waits for while nothing can be stored. */
export const MISSING = {
  space: "free space on the disk of the telemetry database",
  writable: "a writable file system for the telemetry database (it is read-only)",
} as const;

/**
 * What a refused write lacks: space, or its reserve's; a file system that takes writes. undefined:
 * something else.
 */
export function missingToWrite(error: unknown): keyof typeof MISSING | undefined {
  if (!(error instanceof MosaicError) || error.code !== "unavailable") return undefined;
  if (isFull(error.cause) || /the disk is full|quota is used up/.test(error.message)) {
    return "space";
  }
  return /the file system is read-only/.test(error.message) ? "writable" : undefined;
}

/** SQLite's codes for an invalid value: too big, a constraint, a mismatch, out of range. */
const CONTENT = new Set([18, 19, 20, 25]);

/**
 * Whether the same records would be refused every time; false for temporary trouble, such as lack
 * of memory.
 */
export function refusesContent(error: unknown): boolean {
  const { errcode, message } = error as { errcode?: number; message?: string };
  if (typeof errcode === "number") return CONTENT.has(errcode & 0xff);
  return error instanceof TypeError || error instanceof RangeError ||
    /constraint|too big|mismatch|cannot be bound/i.test(String(message));
}
