/**
 * Identity of a process. Pids are reused, so a process is identified by pid, start time and boot
 * id.
 */
import { shellOutput } from "./shell.ts";
import { isShortage } from "./shortage.ts";

/**
 * A process; `identity` is its boot id and start time, so that it is never confused with a reused
 * pid.
 */
export interface ProcessRef {
  pid: number;
  identity: string;
}

/** Fields of /proc/PID/stat. */
interface ProcStat {
  state: string;
  parent: number;
  processGroup: number;
  startTicks: string;
}

// The list of children has no newline at its end: then `read` fails although it has read the line.
const READ_LINE = '{ read -r line || [ -n "$line" ]; } <"$0" && printf %s "$line"';
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/**
 * Where that cannot be read; the worker's wrapper writes the same (src/proxy/worker/wrapper.ts).
 */
const NO_BOOT_ID = "boot";

let bootId: string | undefined;

function readText(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return readByShell(path);
    // Out of descriptors: do not report a living process as dead.
    if (isShortage(error)) throw error;
    // No such process.
    return undefined;
  }
}

/** Under a permission set Deno refuses most of /proc; a permitted shell can still read it. */
function readByShell(path: string): string | undefined {
  if (bootId !== undefined) return shellOutput(READ_LINE, path);
  // Every identity needs the boot id, too, and starting a shell costs more than a second file.
  const text = shellOutput(
    `read -r line <${BOOT_ID} || line=${NO_BOOT_ID}; printf '%s\\n' "$line"; ${READ_LINE}`,
    path,
  );
  bootId = text?.slice(0, text.indexOf("\n"));
  return text?.slice(text.indexOf("\n") + 1);
}

function statOf(pid: number): ProcStat | undefined {
  const text = readText(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The command's name is in parentheses and may itself contain parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return statFrom(fields);
}

function statFrom(fields: string[]): ProcStat {
  const [state, parent, processGroup] = fields;
  return {
    state: state!,
    parent: Number(parent),
    processGroup: Number(processGroup),
    startTicks: fields[19]!,
  };
}

function boot(): string {
  return bootId ??= (readText(BOOT_ID) ?? NO_BOOT_ID).trim();
}

function isDead({ state }: ProcStat): boolean {
  return state === "Z" || state === "X";
}

/**
 * The identity of a living process; undefined if there is none, or only a zombie. @throws when out
 * of descriptors
 */
export function identityOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  const stat = statOf(pid);
  return stat === undefined || isDead(stat) ? undefined : `${boot()}/${stat.startTicks}`;
}

/** Start time of pid 1, which in a container is the container's; NaN if not readable. */
let firstTicks: number | undefined;

/**
 * Whether the process can belong to the current boot. After a reboot or a restart of the container,
 * its pid and process group id belong to others.
 */
export function isOfThisSystem(process: ProcessRef): boolean {
  const [bootId, ticks] = process.identity.split("/");
  if (bootId !== boot()) return false;
  firstTicks ??= Number(statOf(1)?.startTicks ?? NaN);
  return !(Number(ticks) < firstTicks);
}

/** Whether exactly this process is alive. */
export function isAlive(process: ProcessRef): boolean {
  return identityOf(process.pid) === process.identity;
}

export function processRef(pid: number): ProcessRef | undefined {
  const identity = identityOf(pid);
  return identity === undefined ? undefined : { pid, identity };
}

/**
 * The living (not zombie) members of a process group.
 *
 * Reads all of /proc (through one shell if Deno refuses), because a group may outlive its leader.
 */
export function groupMembers(groupId: number): number[] {
  return allStats().filter(([, stat]) => stat.processGroup === groupId && !isDead(stat)).map((
    [pid],
  ) => pid);
}

/** Living children of a group's leader outside the group, and whether each leads its own group. */
export function childrenOutside(leader: number): { process: ProcessRef; leads: boolean }[] {
  // Use the kernel's list of children if available: reading all of /proc is too slow when stopping
  // hundreds of runs.
  const listed = readText(`/proc/${leader}/task/${leader}/children`);
  const stats = listed === undefined
    ? allStats()
    : statsOf((listed.match(/\d+/g) ?? []).map(Number));
  return stats
    .filter(([, stat]) => stat.parent === leader && stat.processGroup !== leader && !isDead(stat))
    .map(([pid, stat]) => ({
      process: { pid, identity: `${boot()}/${stat.startTicks}` },
      leads: stat.processGroup === pid,
    }));
}

function statsOf(pids: number[]): [number, ProcStat][] {
  return pids.flatMap((pid) => {
    const stat = statOf(pid);
    return stat === undefined ? [] : [[pid, stat] as [number, ProcStat]];
  });
}

function allStats(): [number, ProcStat][] {
  let pids: number[];
  try {
    pids = [...Deno.readDirSync("/proc")].map((e) => Number(e.name)).filter((n) =>
      Number.isSafeInteger(n) && n > 0
    );
  } catch (error) {
    if (isShortage(error)) throw error;
    pids = [];
  }
  if (pids.length > 0) {
    try {
      Deno.readTextFileSync(`/proc/1/stat`);
      return statsOf(pids);
    } catch (error) {
      if (isShortage(error)) throw error;
      // Not permitted: read all with one shell.
    }
  }
  const lines = shellOutput(
    'for f in /proc/[0-9]*/stat; do { read -r l <"$f" && printf "%s\\n" "$l"; } 2>/dev/null; done; :',
  );
  return (lines ?? "").split("\n").filter((l) => l !== "").map((line) => {
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return [Number.parseInt(line), statFrom(fields)];
  });
}
