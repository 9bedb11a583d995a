/** The token of a run's proxy, and the file in the run's directory that hands a token to whoever needs one. */
import type { RunFiles } from "../../base/layout.ts";
import { writeRecord } from "../../os/untrusted.ts";

export function newSessionToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

export function writeSessionToken(files: RunFiles, token: string): void {
  writeRecord(files.sessionTokenFile, `${token}\n`);
}
