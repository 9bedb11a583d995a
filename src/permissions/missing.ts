/** Error messages for missing permissions, with the flag that grants them. */
import { messageOf, MosaicError } from "../base/errors.ts";
import { explainFile } from "../os/files/file_errors.ts";
import { programForm } from "../os/processes/self.ts";
import { EXTRA_VARIABLE } from "./permissions.ts";

const REFUSAL = /Requires (\w+) access(?: to "([^"]*)")?/;

const DEEDS: Record<string, string> = {
  read: "read",
  write: "write to",
  net: "connect to or listen on",
  run: "run",
  env: "read the variable",
  sys: "read the system's",
};

/**
 * Converts Deno's NotCapable error to a MosaicError; returns other errors unchanged.
 * @param path the path as the user gave it; without it, the one in the error's message
 */
export function explainMissing(error: unknown, path?: string): unknown {
  if (!(error instanceof Deno.errors.NotCapable)) return error;
  const match = REFUSAL.exec(error.message);
  if (match === null) return error;
  const [, kind, what] = match;
  if (kind === "all" && what !== undefined) return ofTheSystem(path ?? what, error);
  return DEEDS[kind!] === undefined ? error : missing(kind!, what ?? "", error);
}

/**
 * Converts an error about a path, of the runtime or of the operating system, to a MosaicError that
 * names the path; returns other errors unchanged.
 * @param path the path as the user gave it; without it, the one in the error's message
 */
export function explainPath(error: unknown, path?: string): unknown {
  return explainFile(explainMissing(error, path), path);
}

/**
 * Only all permissions together would grant paths in /proc, /dev and /sys; mosaic has no option for
 * that.
 */
function ofTheSystem(path: string, cause: unknown): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `${path}: mosaic does not open files in /proc, /dev and /sys`,
    {
      hint:
        "Name another path; where a command reads standard input or writes standard output, - means that.",
      cause,
    },
  );
}

/**
 * @throws MosaicError `permission_denied` if the runtime would refuse `address` (HOST:PORT or
 * unix:PATH).
 */
export function requireNet(address: string): void {
  const refused = missingNet(address);
  if (refused !== undefined) throw refused;
}

/** `permission_denied` if the runtime would refuse `address`. */
export function missingNet(address: string): MosaicError | undefined {
  try {
    if (Deno.permissions.querySync({ name: "net", host: address }).state === "granted") {
      return undefined;
    }
  } catch {
    // Not in a form that the runtime accepts: it will report that itself.
    return undefined;
  }
  return missing("net", address);
}

/** How `flags` are granted to `whom`: depends on the form in which mosaic runs. */
export function howToAllow(flags: readonly string[], whom: string): string {
  const text = flags.join(" ");
  switch (programForm()) {
    case "portable":
      return `Start ${whom} with ${EXTRA_VARIABLE}="${text}".`;
    case "compiled":
      return `This executable has its permissions built in; build one that has these, too: ${text}`;
    case "source":
      return `Start ${whom} by "deno run" with ${text}`;
  }
}

function missing(kind: string, what: string, cause?: unknown): MosaicError {
  const flag = `--allow-${kind}${what === "" ? "" : `=${what}`}`;
  return new MosaicError(
    "permission_denied",
    `not permitted to ${DEEDS[kind]} ${what}; ${flag} grants it`,
    {
      hint: howToAllow([flag], "it"),
      cause: cause === undefined ? undefined : messageOf(cause),
    },
  );
}
