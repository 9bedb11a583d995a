/** The state directory and its lock: only one daemon at a time uses it. */
import { messageOf } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { installPythonHelper } from "../../os/python_helper.ts";
import { readTextIfThere, removeIfThere, writeFileAtomic } from "../../os/files/files.ts";
import {
  type PlaceLock,
  recordedHolder,
  recordHolder,
  tryLockPlace,
} from "../../os/files/place_lock.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { signalProcess } from "../../os/processes/signals.ts";
import { isShortage, troubleOf } from "../../os/processes/shortage.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";
import { sleep } from "../../base/time/sleep.ts";

/** Maximum time for the replaced daemon to stop. */
const REPLACE_WAIT_MS = 30_000;
/** After that it is killed, which takes as long as the kernel needs to free its memory. */
const KILL_WAIT_MS = 5000;

export interface Held {
  /**
   * Whether the directory is still at its path: otherwise everything below that path is another
   * daemon's.
   */
  isHere(): boolean;
  /**
   * Locks again what somebody has removed. @returns false if another daemon has the directory's
   * lock now
   */
  renew(): boolean;
  /** Releases the lock. */
  release(): void;
}

/**
 * Refuses directories in which another user could put files, as ssh does: write access to them
 * gives the rights of the daemon's user.
 * @param uid the daemon's user
 * @throws StartFailure (stateUnusable)
 */
export function createStateDirectory(layout: Layout, uid = Deno.uid()): void {
  try {
    for (const directory of layout.directories()) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      refuseShared(directory, uid);
    }
  } catch (error) {
    throw unusable(layout, error);
  }
}

function refuseShared(directory: string, uid: number | null): void {
  const { uid: owner, mode } = Deno.statSync(directory);
  if (uid === null || owner === null || mode === null) return;
  const why = owner !== uid
    ? `${directory} belongs to user ${owner}, and the daemon is user ${uid}`
    : (mode & 0o022) !== 0
    ? `other users may write to ${directory} (mode ${(mode & 0o777).toString(8)})`
    : undefined;
  if (why === undefined) return;
  throw new StartFailure(
    DAEMON_EXIT.stateUnusable,
    why,
    owner !== uid
      ? `Start the daemon as that user, choose another --state-dir, or, if what is in it is yours, run "chown -R ${uid}" on it.`
      : `Find out who has put something there, then run: chmod go-w ${directory}`,
  );
}

/** @throws StartFailure (usage) with the pid of the daemon that has the lock; (stateUnusable) */
export async function takeStateDirectory(
  layout: Layout,
  replace: boolean,
  waitMs = REPLACE_WAIT_MS,
): Promise<Held> {
  let lock = lockOf(layout);
  let hint = "Stop it, add --replace to replace it, or choose another --state-dir.";
  if (lock === undefined && replace) ({ lock, hint } = await replaceHolder(layout, waitMs));
  if (lock === undefined) {
    const pid = pidIn(layout);
    throw new StartFailure(
      DAEMON_EXIT.usage,
      `a daemon${pid ? ` (pid ${pid})` : ""} already uses ${layout.stateDir}`,
      hint,
    );
  }
  try {
    // A daemon.json left by a crashed daemon would send clients to a dead address.
    removeIfThere(layout.daemonJson);
    ignoringShortage(() => installPythonHelper(layout.pythonHelper));
    ignoringShortage(() => recordHolder(lock));
    ignoringShortage(() => writeFileAtomic(layout.pidFile, `${Deno.pid}\n`, { mode: 0o600 }));
  } catch (error) {
    lock.close();
    throw unusable(layout, error);
  }
  return {
    isHere: () => lock.isHere(),
    renew() {
      const before = lock.file;
      if (!lock.renew()) return false;
      if (lock.file !== before) ignoringShortage(() => recordHolder(lock));
      return true;
    },
    release() {
      try {
        if (lock.isHere()) {
          removeIfThere(layout.daemonJson);
          removeIfThere(layout.pidFile);
        }
      } catch {
        // The directory is no longer writable; the released lock is enough.
      }
      lock.close();
    },
  };
}

function lockOf(layout: Layout): PlaceLock | undefined {
  try {
    return tryLockPlace(layout.lockFile);
  } catch (error) {
    throw unusable(layout, error);
  }
}

/**
 * Asks the daemon that holds the lock to stop, and kills it if it hangs: it serves nobody, and its
 * runs continue in any case.
 * @returns the lock; without it, a hint that says what a person can do
 */
async function replaceHolder(
  layout: Layout,
  waitMs: number,
): Promise<{ lock: PlaceLock | undefined; hint: string }> {
  let deadline = performance.now() + waitMs;
  let signalled: ProcessRef | undefined;
  let killed = false;
  for (;;) {
    // The holder writes its pid just after taking the lock; until then the file may contain a stale
    // pid.
    const holder = signalled === undefined ? holderOf(layout) : undefined;
    if (holder !== undefined && signalProcess(holder, "SIGTERM")) signalled = holder;
    const lock = lockOf(layout);
    if (lock !== undefined) return { lock, hint: "" };
    if (performance.now() > deadline) {
      if (signalled === undefined) {
        const pid = pidIn(layout);
        const kill = pid ? ` ("kill ${pid}", if that process is the daemon)` : "";
        const hint = "It could not be replaced: its files do not show which process it is. " +
          `Stop it${kill}, and start this one again; its runs continue.`;
        return { lock, hint };
      }
      if (killed) {
        const hint =
          `It was killed and has not ended yet. Start this one again when process ${signalled.pid} is gone.`;
        return { lock, hint };
      }
      killed = signalProcess(signalled, "SIGKILL");
      deadline = performance.now() + (killed ? KILL_WAIT_MS : waitMs);
      // It has ended, and another daemon has taken the lock: that one is the holder now.
      if (!killed) signalled = undefined;
    }
    await sleep(20);
  }
}

function pidIn({ pidFile }: Layout): string | undefined {
  return readTextIfThere(pidFile)?.trim();
}

/** On a full disk the pid is missing from the file; the lock itself still holds. */
function ignoringShortage(write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isShortage(error)) throw error;
  }
}

/**
 * The lock's file may have been deleted: a daemon that was ready has recorded its pid and identity
 * in a second file.
 */
function holderOf(layout: Layout): ProcessRef | undefined {
  return processNamedIn(layout.lockFile) ?? processNamedIn(layout.daemonJson);
}

function processNamedIn(path: string): ProcessRef | undefined {
  const holder = recordedHolder(path);
  return holder === "gone" ? undefined : holder;
}

function unusable(layout: Layout, error: unknown): unknown {
  if (error instanceof Deno.errors.NotCapable || error instanceof StartFailure) return error;
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `cannot use the state directory ${layout.stateDir}: ${messageOf(error)}`,
    troubleOf(error)?.[1] ??
      "It must be a directory that the daemon's user can write to, on a disk with free space.",
  );
}
