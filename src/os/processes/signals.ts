/** All signals to processes and process groups are sent here. */
import {
  childrenOutside,
  groupMembers,
  isAlive,
  isOfThisSystem,
  type ProcessRef,
} from "./identity.ts";
import { shellOutput } from "./shell.ts";

export type Signal = "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT" | "SIGINT";

/** kill(0) and kill(-1) would signal mosaic itself or all processes: refuse such pids. */
function checked(pid: number): number {
  if (!Number.isSafeInteger(pid) || pid <= 1) throw new TypeError(`refusing to signal pid ${pid}`);
  return pid;
}

/** Signals exactly this process; false if it is gone. */
export function signalProcess(process: ProcessRef, signal: Signal): boolean {
  if (!isAlive(process)) return false;
  return send(checked(process.pid), signal);
}

export interface Reach {
  /** Also signal the leader's children outside its group. Finding them takes time. */
  outside?: boolean;
}

/**
 * Signals the group that `leader` leads. The group may outlive its leader, and the kernel does not
 * reuse the leader's pid while the group exists. So the signal is suppressed only if a *different*
 * living process has that pid.
 *
 * Also reaches a worker that has created its own group or session: while the leader lives, the
 * worker is its child. Processes that the worker itself moves to further sessions are not reached.
 */
export function signalGroup(
  leader: ProcessRef,
  signal: Signal,
  { outside = true }: Reach = {},
): boolean {
  const group = -checked(leader.pid);
  if (!groupIsOurs(leader)) return false;
  // After the leader's end its pid may be reused by a process that leads no group: its children are
  // not the worker's.
  if (outside && isAlive(leader)) {
    for (const { process, leads } of childrenOutside(leader.pid)) {
      if (isAlive(process)) {
        sendIfAllowed(leads ? -checked(process.pid) : checked(process.pid), signal);
      }
    }
  }
  return send(group, signal);
}

/**
 * A worker's group, and the groups of its leader's children, recorded at the first call: they
 * outlive the leader, and after its end nothing identifies them.
 */
export class WorkerGroups {
  readonly #leader: ProcessRef;
  #led: ProcessRef[] | undefined;

  constructor(leader: ProcessRef) {
    this.#leader = leader;
  }

  /** Whether any member of any of the groups is alive. */
  alive(): boolean {
    // Forget ended groups: their ids may be reused.
    this.#led = this.#groups().filter(groupAlive);
    return this.#led.length > 0 || groupAlive(this.#leader);
  }

  signal(signal: Signal): void {
    const led = this.#groups();
    // While the leader lives this reaches all groups; the worker should get the signal only once.
    signalGroup(this.#leader, signal);
    if (signal !== "SIGKILL") return;
    // Do not wait for processes that cannot be signalled.
    this.#led = led.filter((one) => groupIsOurs(one) && sendIfAllowed(-checked(one.pid), signal));
  }

  #groups(): ProcessRef[] {
    return this.#led ??= isAlive(this.#leader)
      ? childrenOutside(this.#leader.pid).filter(({ leads }) => leads).map(({ process }) => process)
      : [];
  }
}

/**
 * Ignores a missing permission: a set-uid program cannot be signalled, and must not prevent
 * signalling the others.
 */
function sendIfAllowed(target: number, signal: Signal): boolean {
  try {
    return send(target, signal);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

/** Whether any member of the leader's group is alive; zombies do not count. */
export function groupAlive(leader: ProcessRef): boolean {
  if (isAlive(leader)) return true;
  if (!isOfThisSystem(leader) || !groupExists(leader.pid)) return false;
  const members = groupMembers(leader.pid);
  return members.length > 0 && !members.includes(leader.pid);
}

/** Cheap check; may return true for a group of zombies. */
function groupExists(groupId: number): boolean {
  try {
    // Use the global: importing node:process costs a proxy 40 ms at its start.
    // deno-lint-ignore no-process-global
    return process.kill(-checked(groupId), 0);
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
}

function groupIsOurs(leader: ProcessRef): boolean {
  if (isAlive(leader)) return true;
  if (!isOfThisSystem(leader)) return false;
  // The leader is gone. A living process with its pid means that the group has ended and the pid
  // was reused.
  return !groupMembers(leader.pid).includes(leader.pid);
}

function send(target: number, signal: Signal): boolean {
  try {
    Deno.kill(target, signal);
    return true;
  } catch (error) {
    // Deno can signal only with permission to run everything; a permitted shell can do it.
    if (error instanceof Deno.errors.NotCapable) return sendByShell(target, signal);
    if (
      error instanceof Deno.errors.NotFound ||
      (error instanceof Error && error.message.includes("ESRCH"))
    ) {
      return false;
    }
    throw error;
  }
}

function sendByShell(target: number, signal: Signal): boolean {
  return shellOutput('kill -s "$0" -- "$1"', signal.slice("SIG".length), String(target)) !==
    undefined;
}
