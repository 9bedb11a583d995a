/**
 * Who a pid really is. A pid alone is never trusted: a process is known by its pid, the kernel's start time of that
 * pid and the boot it belongs to.
 */
import { askShell } from "./shell.ts";
import { isShortage } from "./shortage.ts";

/** A process known beyond doubt: `identity` is its boot id and start time, so that a reused pid is never taken for it. */
export interface ProcessRef {
  pid: number;
  identity: string;
}

/** What of /proc/PID/stat mosaic needs. */
interface ProcStat {
  state: string;
  parent: number;
  processGroup: number;
  startTicks: string;
}

function readText(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return readByShell(path);
    // To be unable to look is not to find nobody there: a living process would be taken for dead.
    if (isShortage(error)) throw error;
    // Gone between two looks, or never there.
    return undefined;
  }
}

/** Under a permission set the runtime refuses most of /proc; a shell that may be run can still read it. */
function readByShell(path: string): string | undefined {
  // A list of children has no end of line, for which `read` fails though it has read it.
  return askShell('{ read -r line || [ -n "$line" ]; } <"$0" && printf %s "$line"', path);
}

function statOf(pid: number): ProcStat | undefined {
  const text = readText(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The command's name stands in parentheses and may itself hold anything, parentheses too.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return statFrom(fields);
}

function statFrom(fields: string[]): ProcStat {
  const [state, parent, processGroup] = fields;
  return { state: state!, parent: Number(parent), processGroup: Number(processGroup), startTicks: fields[19]! };
}

let bootId: string | undefined;
function boot(): string {
  return bootId ??= (readText("/proc/sys/kernel/random/boot_id") ?? "boot").trim();
}

function isDead({ state }: ProcStat): boolean {
  return state === "Z" || state === "X";
}

/** The identity of a living process; undefined when there is none (a zombie counts as none). @throws when no descriptor is left to look. */
export function identityOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  const stat = statOf(pid);
  return stat === undefined || isDead(stat) ? undefined : `${boot()}/${stat.startTicks}`;
}

/** When this system's first process started; in a container that is the container's own. NaN where it is not to be seen. */
let firstTicks: number | undefined;

/**
 * Whether the process may belong to this run of the system at all. After a reboot, or in a container that was started
 * again, its pid (and its group's number, leader or not) is somebody else's.
 */
export function isOfThisSystem(process: ProcessRef): boolean {
  const [bootId, ticks] = process.identity.split("/");
  if (bootId !== boot()) return false;
  firstTicks ??= Number(statOf(1)?.startTicks ?? NaN);
  return !(Number(ticks) < firstTicks);
}

/** Whether exactly this process still lives. */
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
 * Reads all of /proc (by one shell where the runtime refuses to): a group may outlive its leader.
 */
export function groupMembers(groupId: number): number[] {
  return allStats().filter(([, stat]) => stat.processGroup === groupId && !isDead(stat)).map(([pid]) => pid);
}

/** Living children of a group's leader that have left the group, and whether each leads one of its own now. */
export function childrenOutside(leader: number): { process: ProcessRef; leads: boolean }[] {
  // The kernel's own list where it keeps one: a daemon that stops hundreds of runs at once cannot read all of /proc for each.
  const listed = readText(`/proc/${leader}/task/${leader}/children`);
  const stats = listed === undefined ? allStats() : statsOf((listed.match(/\d+/g) ?? []).map(Number));
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
    pids = [...Deno.readDirSync("/proc")].map((e) => Number(e.name)).filter((n) => Number.isSafeInteger(n) && n > 0);
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
      // Refused: one shell reads them all.
    }
  }
  const lines = askShell(
    'for f in /proc/[0-9]*/stat; do { read -r l <"$f" && printf "%s\\n" "$l"; } 2>/dev/null; done; :',
  );
  return (lines ?? "").split("\n").filter((l) => l !== "").map((line) => {
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return [Number.parseInt(line), statFrom(fields)];
  });
}
