/**
 * Errors of the operating system about a path that somebody has named: what is wrong with it, and
 * what to do.
 */
import { type ErrorCode, messageOf, MosaicError } from "../../base/errors.ts";

interface Trouble {
  code: ErrorCode;
  /** What follows the path in the message. */
  what: string;
  hint?: string;
}

const FULL = "Free space there, or name a path on a larger disk.";

/** By errno, which Deno puts into its messages: "Is a directory (os error 21): readfile '/tmp'". */
const TROUBLES: Record<number, Trouble> = {
  1: { code: "permission_denied", what: "the system does not permit this" },
  2: { code: "not_found", what: "there is no such file or directory" },
  13: {
    code: "permission_denied",
    what: "you have no permission for this",
    hint: "Correct its owner or mode.",
  },
  17: {
    code: "invalid_argument",
    what: "a file of this name exists already",
    hint: "Name another path.",
  },
  20: {
    code: "invalid_argument",
    what: "a part of this path is a file, not a directory",
    hint: "Name another path.",
  },
  21: { code: "invalid_argument", what: "this is a directory, not a file", hint: "Name a file." },
  26: {
    code: "invalid_argument",
    what: "a program that runs has this file open",
    hint: "Name another path.",
  },
  28: { code: "resource_exhausted", what: "the disk is full", hint: FULL },
  30: {
    code: "permission_denied",
    what: "the file system is read-only",
    hint: "Name a path on another one.",
  },
  36: {
    code: "invalid_argument",
    what: "a name in this path is too long",
    hint: "Name a shorter path.",
  },
  40: {
    code: "invalid_argument",
    what: "the links in this path lead in a circle",
    hint: "Name another path.",
  },
  122: { code: "resource_exhausted", what: "the disk quota is used up", hint: FULL },
};
/** `mkdir` of a name that a file has. */
const NO_DIRECTORY: Trouble = {
  code: "invalid_argument",
  what: "this is a file, and a directory is needed",
  hint: "Name a directory, or a path that does not exist yet.",
};

/** The message of SQLite, for a path that is no file. */
const NO_DATABASE = /^unable to open database file: (.+)$/s;
const DENO_ERROR = /^(.*) \(os error (\d+)\)(?:: (\w+) '(.*?)'(?: -> '(.*)')?)?$/s;

/**
 * Converts the operating system's error about a path to a MosaicError that names the path; returns
 * other errors unchanged.
 * @param path the path as the user gave it; without it, the one in the error's message
 */
export function explainFile(error: unknown, path?: string): unknown {
  if (error instanceof MosaicError) return error;
  const database = NO_DATABASE.exec(messageOf(error));
  if (database !== null) {
    return new MosaicError("not_found", `${database[1]}: there is no database that can be opened`, {
      cause: error,
    });
  }
  const match = DENO_ERROR.exec(messageOf(error));
  if (match === null) return error;
  const [, , number, operation, from, to] = match;
  const named = path ?? to ?? from;
  const trouble = number === "17" && operation === "mkdir"
    ? NO_DIRECTORY
    : TROUBLES[Number(number)];
  if (trouble === undefined || named === undefined) return error;
  return new MosaicError(trouble.code, `${named}: ${trouble.what}`, {
    ...(trouble.hint === undefined ? {} : { hint: trouble.hint }),
    cause: error,
  });
}
