/** Signatures by OpenSSH, which most hosts have. */
import { fail, run } from "./build.ts";

/** Purpose of the signature: a signature for another purpose is not accepted. */
export const NAMESPACE = "mosaic-release";

/**
 * Writes FILE.sig. @param key an OpenSSH private key, or a public one whose private half is in the
 * agent or a hardware token
 */
export function sign(file: string, key: string): void {
  try {
    Deno.removeSync(`${file}.sig`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const made = run("ssh-keygen", ["-Y", "sign", "-n", NAMESPACE, "-f", key, file]);
  if (!made.ok) fail(`--sign ${key}: ssh-keygen did not sign ${file}: ${made.err}`);
}
