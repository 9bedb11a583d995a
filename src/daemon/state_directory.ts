/** The state directory and its lock: only one daemon at a time uses it. */
import { messageOf } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import { installPythonHelper } from "../os/python_helper.ts";
import { readTextIfThere, removeIfThere, tryLock, writeFileAtomic } from "../os/files.ts";
import { type ProcessRef, processRef } from "../os/identity.ts";
import { signalProcess } from "../os/signals.ts";
import { isShortage } from "../os/shortage.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";
import { sleep } from "../base/sleep.ts";

/** Maximum time for the replaced daemon to stop. */
const REPLACE_WAIT_MS = 30_000;

export interface Held {
  /** Releases the lock. */
  release(): void;
}

/**
 * Refuses directories in which another user could put files, as ssh does: whoever may write to them is the daemon's user.
 *
 * @param uid the daemon's user @throws StartFailure (stateUnusable)
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
      : `Look who has put something there, then run: chmod go-w ${directory}`,
  );
}

/** @throws StartFailure (usage) with the pid of the daemon that has the lock; (stateUnusable) */
export async function takeStateDirectory(layout: Layout, replace: boolean): Promise<Held> {
  let lock = lockOf(layout);
  if (lock === undefined && replace) lock = await replaceHolder(layout);
  if (lock === undefined) {
    const pid = readTextIfThere(layout.pidFile)?.trim();
    throw new StartFailure(
      DAEMON_EXIT.usage,
      `a daemon${pid ? ` (pid ${pid})` : ""} already uses ${layout.stateDir}`,
      "Stop it, add --replace to replace it, or choose another --state-dir.",
    );
  }
  try {
    // A daemon.json left by a crashed daemon would send clients to a dead address.
    removeIfThere(layout.daemonJson);
    evenWithoutRoom(() => installPythonHelper(layout.pythonHelper));
    evenWithoutRoom(() => sign(lock));
    evenWithoutRoom(() => writeFileAtomic(layout.pidFile, `${Deno.pid}\n`, { mode: 0o600 }));
  } catch (error) {
    lock.close();
    throw unusable(layout, error);
  }
  return {
    release() {
      try {
        removeIfThere(layout.daemonJson);
        removeIfThere(layout.pidFile);
      } catch {
        // The directory is no longer writable; the released lock is enough.
      }
      lock.close();
    },
  };
}

function lockOf(layout: Layout): Deno.FsFile | undefined {
  try {
    return tryLock(layout.lockFile);
  } catch (error) {
    throw unusable(layout, error);
  }
}

async function replaceHolder(layout: Layout): Promise<Deno.FsFile | undefined> {
  const deadline = performance.now() + REPLACE_WAIT_MS;
  let asked = false;
  for (;;) {
    // The holder writes its pid just after taking the lock; until then the file may contain a stale pid.
    const holder = asked ? undefined : holderOf(layout);
    if (holder !== undefined) asked = signalProcess(holder, "SIGTERM");
    const lock = lockOf(layout);
    if (lock !== undefined || performance.now() > deadline) return lock;
    await sleep(20);
  }
}

/** The lock's holder writes its pid and identity into the file; a pid alone may have been reused. */
function sign(lock: Deno.FsFile): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(processRef(Deno.pid))}\n`);
  // Overwrite in place, which needs no free space.
  lock.seekSync(0, Deno.SeekMode.Start);
  for (let done = 0; done < bytes.length;) done += lock.writeSync(bytes.subarray(done));
  lock.truncateSync(bytes.length);
}

/** On a full disk the pid is missing from the file; the lock itself still holds. */
function evenWithoutRoom(write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isShortage(error)) throw error;
  }
}

function holderOf(layout: Layout): ProcessRef | undefined {
  try {
    const { pid, identity } = JSON.parse(readTextIfThere(layout.lockFile) ?? "") as ProcessRef;
    const holder = processRef(pid);
    return holder?.identity === identity ? holder : undefined;
  } catch {
    return undefined;
  }
}

function unusable(layout: Layout, error: unknown): unknown {
  if (error instanceof Deno.errors.NotCapable || error instanceof StartFailure) return error;
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `cannot use the state directory ${layout.stateDir}: ${messageOf(error)}`,
    "It must be a directory that the daemon's user can write to, on a disk with free space.",
  );
}
