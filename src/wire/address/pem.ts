import { messageOf, MosaicError } from "../../base/errors.ts";
import { shellOutput } from "../../os/processes/shell.ts";

/**
 * @param option names the file in errors. @throws MosaicError `failed_precondition` for an unusable
 * file.
 */
export function pem(path: string, option: string): string {
  let text: string;
  try {
    text = read(path);
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `${option} ${path} cannot be read: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  if (!/-----BEGIN [A-Z0-9 ]+-----/.test(text)) {
    throw new MosaicError("failed_precondition", `${option} ${path} is no PEM file`);
  }
  return text;
}

/** A daemon that has dropped the permission to read its certificates reads new ones by a shell. */
function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    const text = mayRunShell() ? shellOutput('cat "$1"', "sh", path) : undefined;
    if (text === undefined) throw error;
    return text;
  }
}

function mayRunShell(): boolean {
  return Deno.permissions.querySync({ name: "run", command: "/bin/sh" }).state === "granted";
}
