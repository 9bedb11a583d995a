/** The token of a run's proxy, and the file in the run's directory that hands a token to whoever needs one. */
import type { RunFiles } from "../../base/layout.ts";
import { writeRecord } from "../../os/untrusted.ts";

export function newSessionToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** @param group of a worker with a user of its own: it can read the file, too */
export function writeSessionToken(files: RunFiles, token: string, group?: number): void {
  writeRecord(files.sessionTokenFile, `${token}\n`);
  if (group === undefined) return;
  Deno.chownSync(files.sessionTokenFile, null, group);
  Deno.chmodSync(files.sessionTokenFile, 0o640);
}
