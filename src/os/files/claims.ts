/** Processes whose environment names the run and attempt that they belong to. */
import { shellOutput, SOON } from "../processes/shell.ts";

/** A process whose environment names a run and an attempt. */
export interface Claim {
  pid: number;
  runDir: string;
  attempt: number;
}

/** Processes whose environment names a run below `trainer`. */
export function claims(trainer: string): Claim[] {
  const found: Claim[] = [];
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync("/proc")];
  } catch {
    return claimsByShell(trainer);
  }
  for (const { name } of entries) {
    const pid = Number(name);
    if (!Number.isSafeInteger(pid) || pid <= 1) continue;
    let environment: string;
    try {
      environment = Deno.readTextFileSync(`/proc/${pid}/environ`);
    } catch {
      continue;
    }
    const claim = claimIn(environment, trainer);
    if (claim !== undefined) found.push({ pid, ...claim });
  }
  return found;
}

/** The same by a shell, if the runtime may not list processes. */
function claimsByShell(trainer: string): Claim[] {
  const listed = shellOutput(
    `for f in $(${SOON} grep -lsF "MOSAIC_RUN_DIR=$0/" /proc/[0-9]*/environ); do
      pid=\${f#/proc/}
      printf '%s\\0' "\${pid%/*}" && grep -azs -e '^MOSAIC_RUN_DIR=' -e '^MOSAIC_ATTEMPT=' "$f"
      printf '\\n'
    done; :`,
    trainer,
  ) ?? "";
  return listed.split("\n").flatMap((line) => {
    const claim = claimIn(line, trainer);
    return claim === undefined
      ? []
      : [{ pid: Number(line.slice(0, line.indexOf("\0"))), ...claim }];
  });
}

/** The claim in an environment (NAME=value, separated by NUL) about a run below `trainer`. */
function claimIn(environment: string, trainer: string): Omit<Claim, "pid"> | undefined {
  let runDir: string | undefined;
  let attempt: number | undefined;
  for (const pair of environment.split("\0")) {
    if (pair.startsWith("MOSAIC_RUN_DIR=")) runDir = pair.slice("MOSAIC_RUN_DIR=".length);
    if (pair.startsWith("MOSAIC_ATTEMPT=")) attempt = Number(pair.slice("MOSAIC_ATTEMPT=".length));
  }
  if (runDir === undefined || !Number.isSafeInteger(attempt)) return undefined;
  const inside = runDir.startsWith(`${trainer}/`) && !runDir.split("/").includes("..");
  return inside ? { runDir, attempt: attempt! } : undefined;
}
