/**
 * A worker's processes, and which files they have open for writing, by /proc, which only a shell may read under a permission
 * set.
 */
import { askShell } from "../../os/shell.ts";

/** Processes of the group or the session `$0`, and children that have left both. */
const SCRIPT = `known=" $0 "; fds= statuses=
for stat in /proc/[0-9]*/stat; do
  { read -r line <"$stat"; } 2>/dev/null || continue
  set -- \${line##*) }
  case $known in *" $2 "* | *" $3 "* | *" $4 "*) ;; *) continue ;; esac
  pid=\${stat#/proc/}; pid=\${pid%/stat}
  known="$known$pid "; fds="$fds /proc/$pid/fd"; statuses="$statuses /proc/$pid/status"
  echo "pid $pid"
done
[ -z "$fds" ] || { grep -h ^NSpid: $statuses; ls -l $fds; } 2>/dev/null
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
  const listing = askShell(SCRIPT, String(leader));
  if (listing === undefined || listing.trim() === "") return undefined;
  const found: WorkerProcesses = { writes: new Set(), pids: new Set(), inner: new Set() };
  for (const line of listing.split("\n")) {
    const path = writtenPath(line);
    if (path !== undefined) found.writes.add(path);
    const [, pid] = /^pid (\d+)$/.exec(line) ?? [];
    if (pid !== undefined) found.pids.add(Number(pid));
    const [, numbers = ""] = /^NSpid:\s*\d+(.*)$/.exec(line) ?? [];
    for (const inner of numbers.match(/\d+/g) ?? []) found.inner.add(Number(inner));
  }
  return found;
}

/** What any process that this user may look at has open for writing. Reads all of /proc: seldom. */
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
