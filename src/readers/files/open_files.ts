/**
 * A worker's processes, and the files that they have open for writing, from /proc. Under a
 * permission set only a shell may read it.
 */
import { parsedObject } from "../../base/text/json_text.ts";
import { shellOutput, SOON } from "../../os/processes/shell.ts";

const STATS = "cat /proc/[0-9]*/stat 2>/dev/null; :";
const READ_MEMBERS = `statuses= fds=
for pid; do statuses="$statuses /proc/$pid/status"; fds="$fds /proc/$pid/fd"; done
{ grep -h ^NSpid: $statuses; ls -l $fds; } 2>/dev/null
:`;

/**
 * Ray and others start daemons in sessions of their own; these have the worker's environment.
 * Reading that of a process that is stuck in a driver waits for it.
 */
const OF_RUN = SOON + 'grep -lszxF -- "MOSAIC_RUN_DIR=$1" /proc/[0-9]*/environ 2>/dev/null; :';

const OF_RUNS = SOON + "grep -lz '^MOSAIC_RUN_DIR=' /proc/[0-9]*/environ 2>/dev/null; :";
const pidsIn = (paths: string | undefined) =>
  ((paths ?? "").match(/(?<=^\/proc\/)\d+/gm) ?? []).map(Number);

export interface WorkerProcesses {
  /** Absolute paths. */
  writes: Set<string>;
  /** Their pids on this host. */
  pids: Set<number>;
  /** Their pids inside sandboxes; these are not unique, because each sandbox numbers its own. */
  inner: Set<number>;
  /** Processes of other runs, as far as this user may see. */
  others: Set<number>;
}

/**
 * undefined if unknown: without /proc, or after the worker's processes have ended.
 * @param runDirectory as in the worker's environment
 */
export function processesOf(leader: number, runDirectory: string): WorkerProcesses | undefined {
  const ofGroup = leader > 0 ? membersOf(shellOutput(STATS) ?? "", leader) : [];
  // Before this run's own: one that starts in between is not taken for another run's.
  const ofRuns = pidsIn(shellOutput(OF_RUNS));
  const byEnvironment = pidsIn(shellOutput(OF_RUN, "sh", runDirectory)).filter((pid) =>
    pid !== Deno.pid
  );
  const members = [...new Set([...ofGroup, ...byEnvironment])];
  if (members.length === 0) return undefined;
  const found: WorkerProcesses = {
    writes: new Set(),
    pids: new Set(members),
    inner: new Set(),
    others: new Set(),
  };
  for (const pid of ofRuns) if (!found.pids.has(pid) && pid !== Deno.pid) found.others.add(pid);
  for (const line of (shellOutput(READ_MEMBERS, "sh", ...members.map(String)) ?? "").split("\n")) {
    const path = writtenPath(line);
    if (path !== undefined) found.writes.add(path);
    const [, numbers = ""] = /^NSpid:\s*\d+(.*)$/.exec(line) ?? [];
    for (const inner of numbers.match(/\d+/g) ?? []) found.inner.add(Number(inner));
  }
  return found;
}

/**
 * All files that any process, as far as this user may see, has open for writing. It reads all of
 * /proc, so call it seldom.
 */
export function writtenByAnyone(): Set<string> {
  const listing = shellOutput("ls -l /proc/[0-9]*/fd 2>/dev/null; :") ?? "";
  return new Set(listing.split("\n").map(writtenPath).filter((path) => path !== undefined));
}

/** The file behind a line of `ls -l /proc/PID/fd`, if it is open for writing. */
function writtenPath(line: string): string | undefined {
  return /^l.w\S* .*? -> (\/.*)$/.exec(line)?.[1];
}

/**
 * The process that writes an event file, from the file's name
 * `events.out.tfevents.TIME.HOST.PID.NUMBER`: TensorBoard and torch reopen the file for each write.
 * undefined if the name contains no process, or another host.
 */
export function pidInName(path: string, host: string): number | undefined {
  const [, itsHost, pid] = /\.tfevents\.\d+\.(.+)\.(\d+)\.\d+(?:\.v2)?$/.exec(path) ?? [];
  return itsHost === host ? Number(pid) : undefined;
}

/**
 * The process that a tracker names in its first line, as Ray does: `"pid": 123, "hostname": "h"`.
 * Any process may write such a line, so it tells only whose a file is, never whose it is not.
 * @param head the file's beginning
 */
export function pidInContent(head: string, host: string): number | undefined {
  const newline = head.indexOf("\n");
  if (newline < 0 || !head.startsWith("{")) return undefined;
  const { pid, hostname = host } = parsedObject(head.slice(0, newline)) ?? {};
  return Number.isSafeInteger(pid) && hostname === host ? pid as number : undefined;
}

/**
 * Processes of the leader's group and session, and their children that have left both, from lines
 * of /proc/PID/stat in any order (pids wrap around).
 */
export function membersOf(stats: string, leader: number): number[] {
  const rest = new Map<number, number[]>();
  for (const line of stats.split("\n")) {
    // A process name may contain brackets and blanks.
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
