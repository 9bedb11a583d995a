/** Signatures that OpenSSH makes and checks: each host has it, and a key for it is soon made. */
import { fail, run } from "./build.ts";

/** What the signature is for: one made for anything else is not taken. */
export const NAMESPACE = "mosaic-release";

/** Writes FILE.sig. @param key an OpenSSH private key, or a public one whose private half the agent or a token has */
export function sign(file: string, key: string): void {
  try {
    Deno.removeSync(`${file}.sig`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const made = run("ssh-keygen", ["-Y", "sign", "-n", NAMESPACE, "-f", key, file]);
  if (!made.ok) fail(`--sign ${key}: ssh-keygen did not sign ${file}: ${made.err}`);
}
