/**
 * Limits by cgroup v2: each attempt's worker gets a control group of its own below a parent that is delegated to the
 * daemon's user. The wrapper shell stays outside of it and outlives whatever happens to the worker.
 *
 * All of it is done by a shell, because the runtime writes below /sys only where it may do everything.
 */
import { MosaicError } from "../base/errors.ts";
import { askShell } from "./shell.ts";

/** What a run is held to; `null` where the parent lacks the controller, and the config's figure is advice. */
export interface RunCgroup {
  /** Absolute. */
  path: string;
  memoryMb: number | null;
  cpus: number | null;
}

const PREFIX = "mosaic-";
const MOUNTED = "/sys/fs/cgroup";

/**
 * `auto` is the daemon's own cgroup, as a service manager delegates it. Only leaves may have both processes and
 * controllers, so whoever is in it moves to a child named `daemon`; where the manager has done that, its parent is meant.
 */
const OWN = `
while IFS= read -r line; do case $line in 0::*) own=\${line#0::} ;; esac; done </proc/self/cgroup
[ -n "$own" ] || exit 1
case $own in */daemon) own=\${own%/daemon} ;; esac
for mount in "$0" "$0/unified"; do
  [ -e "$mount/cgroup.controllers" ] || continue
  cd "$mount$own" || exit 1
  if [ "$own" != / ]; then
    mkdir -p daemon || exit 1
    for try in 1 2 3; do
      while read -r pid; do echo "$pid" >daemon/cgroup.procs; done <cgroup.procs
    done 2>/dev/null
    read -r left <cgroup.procs && exit 1
  fi
  pwd
  exit
done
exit 1`;

/** Prints the controllers that children have; fails where no process can be put into a child. */
const OPEN = `
cd "$0" && [ -e cgroup.controllers ] || { echo "it is no directory of cgroup v2"; exit; }
for controller in memory cpu; do echo "+$controller" >cgroup.subtree_control; done 2>/dev/null
mkdir -p "$1probe" || { echo "no group can be made in it"; exit; }
sh -c 'echo 0 >"$0"' "$1probe/cgroup.procs" 2>/dev/null && ok=yes
[ -e "$1probe/cgroup.kill" ] || old=yes
rmdir "$1probe"
[ -z "$old" ] || { echo "its groups have no cgroup.kill (Linux 5.14), so none could be ended"; exit; }
[ -n "$ok" ] || { echo "no process can be moved into it"; exit; }
echo "ok $(cat cgroup.subtree_control)"`;

/** The whole group goes when memory is used up: a worker without some of its processes only hangs. */
const CREATE = `
mkdir -p "$0" && cd "$0" || exit
if [ -n "$1" ]; then
  echo "$1" >memory.max && echo 1 >memory.oom.group || exit
  [ ! -e memory.swap.max ] || echo 0 >memory.swap.max || exit
fi
[ -z "$2" ] || echo "$2" >cpu.max`;

/** Silent, or what is left: processes that the kernel has not let go yet. The worker may have made groups in its own. */
const END = `
[ -d "$0" ] || exit 0
echo 1 >"$0/cgroup.kill"
find "$0" -depth -type d -exec rmdir {} \\;
[ -d "$0" ] || exit 0
while read -r name value; do [ "$name $value" != "populated 1" ] || echo populated; done <"$0/cgroup.events"`;

export class RunCgroups {
  readonly parent: string;
  readonly memory: boolean;
  readonly cpu: boolean;

  private constructor(parent: string, controllers: readonly string[]) {
    this.parent = parent;
    this.memory = controllers.includes("memory");
    this.cpu = controllers.includes("cpu");
  }

  /**
   * @param place a directory of cgroup v2, or `auto`
   * @throws MosaicError `failed_precondition` when runs cannot be put into groups there.
   */
  static open(place: string): RunCgroups {
    const parent = place === "auto" ? askShell(OWN, MOUNTED)?.trim() : place;
    if (!parent) {
      throw new MosaicError(
        "failed_precondition",
        "--cgroup-parent auto: the daemon's own cgroup is not its to divide",
        {
          hint: "Under systemd the unit needs Delegate=yes; elsewhere name a delegated directory below /sys/fs/cgroup.",
        },
      );
    }
    const answer = askShell(OPEN, parent, PREFIX)?.trim() ?? "it cannot be entered";
    if (answer !== "ok" && !answer.startsWith("ok ")) {
      throw new MosaicError("failed_precondition", `--cgroup-parent ${parent}: ${answer.split("\n").at(-1)}`, {
        hint: "Name a directory below /sys/fs/cgroup (cgroup v2) that is delegated to the daemon's user.",
      });
    }
    return new RunCgroups(parent, answer.split(" ").slice(1));
  }

  /** The config's limits that stay advice here. */
  get advisory(): string[] {
    return [...(this.memory ? [] : ["memory_mb"]), ...(this.cpu ? [] : ["cpus"])];
  }

  /** Makes the attempt's group. @throws MosaicError `failed_precondition` */
  create(runId: string, attempt: number, limits: { cpus: number; memoryMb: number }): RunCgroup {
    const group: RunCgroup = {
      path: `${this.parent}/${PREFIX}${runId}-${attempt}`,
      memoryMb: this.memory ? limits.memoryMb : null,
      cpus: this.cpu ? limits.cpus : null,
    };
    const memory = group.memoryMb === null ? "" : String(group.memoryMb * 2 ** 20);
    const cpu = group.cpus === null ? "" : `${Math.round(group.cpus * 100_000)} 100000`;
    if (askShell(CREATE, group.path, memory, cpu) === undefined) {
      throw new MosaicError("failed_precondition", `the cgroup ${group.path} cannot be made or given its limits`);
    }
    return group;
  }

  /** Ends groups that a crash has left behind. Others may have theirs below the same parent: `isOver` knows its own runs only. */
  sweep(isOver: (runId: string, attempt: number) => boolean): void {
    const found = askShell(`for group in "$0"/${PREFIX}*; do [ ! -d "$group" ] || echo "$group"; done`, this.parent);
    for (const path of (found ?? "").split("\n")) {
      const named = /([^/]+)-(\d+)$/.exec(path.slice(this.parent.length + 1 + PREFIX.length));
      if (named !== null && isOver(named[1]!, Number(named[2]))) endCgroup(path);
    }
  }
}

/** Whether the kernel has killed a process of the group for want of memory. */
export function oomKilled({ path }: RunCgroup): boolean {
  return Number(/^oom_kill (\d+)$/m.exec(askShell('cat "$0/memory.events"', path) ?? "")?.[1] ?? 0) > 0;
}

/** Kills what is left of a group, whatever sessions it is in, and removes it; false while the kernel is still at it. */
export function endCgroup(path: string): boolean {
  return askShell(END, path)?.trim() !== "populated";
}

/** Names of the config's limits that a group holds its worker to. */
export function heldTo(group: RunCgroup | undefined): string[] {
  return [...(group?.memoryMb == null ? [] : ["memory_mb"]), ...(group?.cpus == null ? [] : ["cpus"])];
}
