/** The one way in which mosaic signals a process or a group. */
import { childrenOutside, groupMembers, isAlive, isOfThisSystem, type ProcessRef } from "./identity.ts";
import { askShell } from "./shell.ts";

export type Signal = "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT" | "SIGINT";

/** kill(0), kill(-0) and kill(-1) reach mosaic itself or everybody: no pid that could mean that is let through. */
function checked(pid: number): number {
  if (!Number.isSafeInteger(pid) || pid <= 1) throw new TypeError(`refusing to signal pid ${pid}`);
  return pid;
}

/** Signals one process if it is still the one that was meant; false when it is gone. */
export function signalProcess(process: ProcessRef, signal: Signal): boolean {
  if (!isAlive(process)) return false;
  return send(checked(process.pid), signal);
}

export interface Reach {
  /** Whether children of the leader are reached that are outside its group; to look for them takes time. */
  outside?: boolean;
}

/**
 * Signals the group that `leader` leads. The leader may be gone while its group lives on (its pid is not given out again
 * as long as the group exists), so only a *different* living process under that pid stops the signal.
 *
 * A worker is reached where it has begun a group or session of its own, too: it is the leader's child, as long as the
 * leader lives. What it has started elsewhere itself is its own business.
 */
export function signalGroup(leader: ProcessRef, signal: Signal, { outside = true }: Reach = {}): boolean {
  const group = -checked(leader.pid);
  if (!groupIsOurs(leader)) return false;
  // Once the leader is gone its pid may be another's, which leads no group: the children there are not the worker's.
  if (outside && isAlive(leader)) {
    for (const { process, leads } of childrenOutside(leader.pid)) {
      if (isAlive(process)) sendIfAllowed(leads ? -checked(process.pid) : checked(process.pid), signal);
    }
  }
  return send(group, signal);
}

/**
 * A worker's group, and those that children of its leader led when this first looked: they outlive the leader, and once
 * it is gone nothing tells whose they are.
 */
export class WorkerGroups {
  readonly #leader: ProcessRef;
  #led: ProcessRef[] | undefined;

  constructor(leader: ProcessRef) {
    this.#leader = leader;
  }

  /** Whether any member of any of the groups still lives. */
  alive(): boolean {
    // One that is gone is not looked at again: its number may be given out anew.
    this.#led = this.#look().filter(groupAlive);
    return this.#led.length > 0 || groupAlive(this.#leader);
  }

  signal(signal: Signal): void {
    const led = this.#look();
    // As long as the leader lives this reaches them all, and a worker is to hear of its end once.
    signalGroup(this.#leader, signal);
    if (signal !== "SIGKILL") return;
    // What may not be signalled is not waited for either.
    this.#led = led.filter((one) => groupIsOurs(one) && sendIfAllowed(-checked(one.pid), signal));
  }

  #look(): ProcessRef[] {
    return this.#led ??= isAlive(this.#leader)
      ? childrenOutside(this.#leader.pid).filter(({ leads }) => leads).map(({ process }) => process)
      : [];
  }
}

/** A program that runs as another user (set-uid) is not mosaic's to signal, and must not keep the others from it. */
function sendIfAllowed(target: number, signal: Signal): boolean {
  try {
    return send(target, signal);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

/** Whether any member of the leader's group still lives; zombies do not count. */
export function groupAlive(leader: ProcessRef): boolean {
  if (isAlive(leader)) return true;
  if (!isOfThisSystem(leader) || !groupExists(leader.pid)) return false;
  const members = groupMembers(leader.pid);
  return members.length > 0 && !members.includes(leader.pid);
}

/** Cheap, and sure only when it says no: zombies that nobody has reaped count here. */
function groupExists(groupId: number): boolean {
  try {
    // Not imported: the global is there from the beginning, Node's module costs a proxy 40 ms of its start.
    // deno-lint-ignore no-process-global
    return process.kill(-checked(groupId), 0);
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
}

function groupIsOurs(leader: ProcessRef): boolean {
  if (isAlive(leader)) return true;
  if (!isOfThisSystem(leader)) return false;
  // The leader is gone. A living process with its pid is another one that got the number after the group had ended.
  return !groupMembers(leader.pid).includes(leader.pid);
}

function send(target: number, signal: Signal): boolean {
  try {
    Deno.kill(target, signal);
    return true;
  } catch (error) {
    // The runtime signals only when it may run anything at all; a shell that may be run can do it as well.
    if (error instanceof Deno.errors.NotCapable) return sendByShell(target, signal);
    if (error instanceof Deno.errors.NotFound || (error instanceof Error && error.message.includes("ESRCH"))) {
      return false;
    }
    throw error;
  }
}

function sendByShell(target: number, signal: Signal): boolean {
  return askShell('kill -s "$0" -- "$1"', signal.slice("SIG".length), String(target)) !== undefined;
}
