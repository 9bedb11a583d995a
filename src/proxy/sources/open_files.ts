/**
 * A worker's processes, and which files they have open for writing, by /proc, which only a shell may read under a permission
 * set.
 */
import { askShell } from "../../os/shell.ts";

const STATS = "cat /proc/[0-9]*/stat 2>/dev/null; :";
const READ_MEMBERS = `statuses= fds=
for pid; do statuses="$statuses /proc/$pid/status"; fds="$fds /proc/$pid/fd"; done
{ grep -h ^NSpid: $statuses; ls -l $fds; } 2>/dev/null
:`;

export interface WorkerProcesses {
  /** Absolute paths. */
  writes: Set<string>;
  /** As this host has them. */
  pids: Set<number>;
  /** By which sandboxed ones know themselves: they are the same in each sandbox. */
  inner: Set<number>;
}

/** undefined where nobody can tell: without /proc, or when the worker's processes are gone. */
export function processesOf(leader: number): WorkerProcesses | undefined {
  const members = leader > 0 ? membersOf(askShell(STATS) ?? "", leader) : [];
  if (members.length === 0) return undefined;
  const found: WorkerProcesses = { writes: new Set(), pids: new Set(members), inner: new Set() };
  for (const line of (askShell(READ_MEMBERS, "sh", ...members.map(String)) ?? "").split("\n")) {
    const path = writtenPath(line);
    if (path !== undefined) found.writes.add(path);
    const [, numbers = ""] = /^NSpid:\s*\d+(.*)$/.exec(line) ?? [];
    for (const inner of numbers.match(/\d+/g) ?? []) found.inner.add(Number(inner));
  }
  return found;
}

/** What any process that this user may inspect has open for writing. Reads all of /proc: seldom. */
export function writtenByAnyone(): Set<string> {
  const listing = askShell("ls -l /proc/[0-9]*/fd 2>/dev/null; :") ?? "";
  return new Set(listing.split("\n").map(writtenPath).filter((path) => path !== undefined));
}

/** The file behind a line of `ls -l /proc/PID/fd`, if it is open for writing. */
function writtenPath(line: string): string | undefined {
  return /^l.w\S* .*? -> (\/.*)$/.exec(line)?.[1];
}

/**
 * The process that writes an event file, by the file's name: `events.out.tfevents.TIME.HOST.PID.NUMBER`, as TensorBoard and
 * torch name theirs, which they open anew for each write. undefined where the name tells none, or another host.
 */
export function pidInName(path: string, host: string): number | undefined {
  const [, itsHost, pid] = /\.tfevents\.\d+\.(.+)\.(\d+)\.\d+(?:\.v2)?$/.exec(path) ?? [];
  return itsHost === host ? Number(pid) : undefined;
}

/**
 * Processes of the leader's group and session, and their children that have left both, by lines of /proc/PID/stat in any
 * order: pids begin again at their end.
 */
export function membersOf(stats: string, leader: number): number[] {
  const rest = new Map<number, number[]>();
  for (const line of stats.split("\n")) {
    // A name may have brackets and blanks in it.
    const [, pid, ...of] = /^(\d+) \(.*\) \S (\d+) (\d+) (\d+)/.exec(line) ?? [];
    if (pid !== undefined) rest.set(Number(pid), of.map(Number));
  }
  const known = new Set([leader]);
  const members: number[] = [];
  for (let before = -1; members.length > before;) {
    before = members.length;
    for (const [pid, of] of rest) {
      if (!of.some((one) => known.has(one))) continue;
      known.add(pid);
      members.push(pid);
      rest.delete(pid);
    }
  }
  return members;
}
