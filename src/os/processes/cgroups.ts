/**
 * Limits by cgroup v2: each attempt's worker runs in its own cgroup below a parent that is
 * delegated to the daemon's user. The wrapper shell stays outside, so that it survives the worker's
 * end.
 *
 * A shell does the work, because Deno can write below /sys only with all permissions.
 */
import { MosaicError } from "../../base/errors.ts";
import { shellOutput } from "./shell.ts";

/** The limits of a run's cgroup; `null` if it asks for none, or the parent lacks the controller. */
export interface RunCgroup {
  /** Absolute. */
  path: string;
  memoryMb: number | null;
  cpus: number | null;
}

const PREFIX = "mosaic-";
const MOUNTED = "/sys/fs/cgroup";

/**
 * `auto` is the daemon's own cgroup, as delegated by a service manager. Only leaf cgroups can have
 * both processes and controllers, so its processes move to a child named `daemon`; if the manager
 * has already done so, uses the parent.
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

/** Prints the controllers of child cgroups; fails if no process can be moved into a child. */
const OPEN = `
cd "$0" && [ -e cgroup.controllers ] || { echo "it is not a cgroup v2 directory"; exit; }
for controller in memory cpu; do echo "+$controller" >cgroup.subtree_control; done 2>/dev/null
mkdir -p "$1probe" || { echo "cannot create a cgroup in it"; exit; }
sh -c 'echo 0 >"$0"' "$1probe/cgroup.procs" 2>/dev/null && ok=yes
[ -e "$1probe/cgroup.kill" ] || old=yes
rmdir "$1probe"
[ -z "$old" ] || { echo "it has no cgroup.kill (needs Linux 5.14)"; exit; }
[ -n "$ok" ] || { echo "cannot move a process into it"; exit; }
echo "ok $(cat cgroup.subtree_control)"`;

/**
 * memory.oom.group: out of memory kills the whole group, because a worker that loses some processes
 * only hangs.
 */
const CREATE = `
mkdir -p "$0" && cd "$0" || exit
if [ -n "$1" ]; then
  echo "$1" >memory.max && echo 1 >memory.oom.group || exit
  [ ! -e memory.swap.max ] || echo 0 >memory.swap.max || exit
fi
[ -z "$2" ] || echo "$2" >cpu.max`;

/**
 * Prints "populated" while the kernel has not yet removed all processes. The worker may have
 * created child groups.
 */
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
   * @param place a cgroup v2 directory, or `auto`
   * @throws MosaicError `failed_precondition` when runs cannot get cgroups there
   */
  static open(place: string): RunCgroups {
    const parent = place === "auto" ? shellOutput(OWN, MOUNTED)?.trim() : place;
    if (!parent) {
      throw new MosaicError(
        "failed_precondition",
        "--cgroup-parent auto: the daemon's own cgroup is not delegated to it",
        {
          hint:
            "Under systemd the unit needs Delegate=yes; elsewhere name a delegated directory below /sys/fs/cgroup.",
        },
      );
    }
    const answer = shellOutput(OPEN, parent, PREFIX)?.trim() ?? "cannot enter it";
    if (answer !== "ok" && !answer.startsWith("ok ")) {
      throw new MosaicError(
        "failed_precondition",
        `--cgroup-parent ${parent}: ${answer.split("\n").at(-1)}`,
        {
          hint:
            "Name a directory below /sys/fs/cgroup (cgroup v2) that is delegated to the daemon's user.",
        },
      );
    }
    return new RunCgroups(parent, answer.split(" ").slice(1));
  }

  /** The config's limits that are not enforced. */
  get advisory(): string[] {
    return [...(this.memory ? [] : ["memory_mb"]), ...(this.cpu ? [] : ["cpus"])];
  }

  /** Creates the attempt's cgroup. @throws MosaicError `failed_precondition` */
  create(
    runId: string,
    attempt: number,
    limits: { cpus: number | null; memoryMb: number | null },
  ): RunCgroup {
    const group: RunCgroup = {
      path: `${this.parent}/${PREFIX}${runId}-${attempt}`,
      memoryMb: this.memory ? limits.memoryMb : null,
      cpus: this.cpu ? limits.cpus : null,
    };
    const memory = group.memoryMb === null ? "" : String(group.memoryMb * 2 ** 20);
    const cpu = group.cpus === null ? "" : `${Math.round(group.cpus * 100_000)} 100000`;
    if (shellOutput(CREATE, group.path, memory, cpu) === undefined) {
      throw new MosaicError(
        "failed_precondition",
        `cannot create the cgroup ${group.path} with its limits`,
      );
    }
    return group;
  }

  /**
   * Removes cgroups left by a crash. @param isOver true only for ended attempts of this daemon:
   * others may share the parent
   */
  sweep(isOver: (runId: string, attempt: number) => boolean): void {
    const found = shellOutput(
      `for group in "$0"/${PREFIX}*; do [ ! -d "$group" ] || echo "$group"; done`,
      this.parent,
    );
    for (const path of (found ?? "").split("\n")) {
      const named = /([^/]+)-(\d+)$/.exec(path.slice(this.parent.length + 1 + PREFIX.length));
      if (named !== null && isOver(named[1]!, Number(named[2]))) endCgroup(path);
    }
  }
}

/** Whether the kernel has killed a process of the group because memory ran out. */
export function oomKilled({ path }: RunCgroup): boolean {
  return Number(
    /^oom_kill (\d+)$/m.exec(shellOutput('cat "$0/memory.events"', path) ?? "")?.[1] ?? 0,
  ) > 0;
}

/** Kills all processes of a group, in any session, and removes it; false while processes remain. */
export function endCgroup(path: string): boolean {
  return shellOutput(END, path)?.trim() !== "populated";
}

/** Names of the config's limits that a group enforces. */
export function enforcedLimits(group: RunCgroup | undefined): string[] {
  return [
    ...(group?.memoryMb == null ? [] : ["memory_mb"]),
    ...(group?.cpus == null ? [] : ["cpus"]),
  ];
}
