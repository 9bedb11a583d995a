import { messageOf, MosaicError } from "../base/errors.ts";

/** @param option names the file in errors. @throws MosaicError `failed_precondition` for a file that cannot be used. */
export function pem(path: string, option: string): string {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    throw new MosaicError("failed_precondition", `${option} ${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (!/-----BEGIN [A-Z0-9 ]+-----/.test(text)) {
    throw new MosaicError("failed_precondition", `${option} ${path} is no PEM file`);
  }
  return text;
}
