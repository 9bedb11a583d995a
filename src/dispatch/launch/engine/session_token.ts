/** The token of a run's proxy, and the file in the run's directory that passes it on. */
import type { RunFiles } from "../../../base/layout.ts";
import { shareWithGroup, writeRecord } from "../../../os/files/untrusted_changes.ts";

export function newSessionToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** @param group the group of a worker with its own user, which may then read the file */
export function writeSessionToken(files: RunFiles, token: string, group?: number): void {
  writeRecord(files.sessionTokenFile, `${token}\n`);
  if (group !== undefined) shareWithGroup(files.sessionTokenFile, group);
}
