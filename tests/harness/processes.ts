/** Finding and ending the processes of a test's own state directory, and no others. */
import { type ProcessRef, processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { until } from "./wait.ts";

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

/** Living processes whose command line or environment names the directory. */
export function processesOf(directory: string): (ProcessRef & { command: string })[] {
  const found: (ProcessRef & { command: string })[] = [];
  for (const entry of Deno.readDirSync("/proc")) {
    const pid = Number(entry.name);
    if (!Number.isSafeInteger(pid) || pid <= 1 || pid === Deno.pid) continue;
    const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
    if (!command.includes(directory) && !read(`/proc/${pid}/environ`).includes(directory)) continue;
    const ref = processRef(pid);
    if (ref !== undefined) found.push({ ...ref, command });
  }
  return found;
}

/** Kills them all, including those that are started meanwhile. */
export async function killProcessesOf(directory: string): Promise<void> {
  await until(() => {
    const left = processesOf(directory);
    for (const process of left) signalProcess(process, "SIGKILL");
    return left.length === 0;
  }, { what: `the processes of ${directory} to be gone`, state: () => processesOf(directory) });
}
