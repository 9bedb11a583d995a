/** A state directory and the right to it: one daemon at a time, known by the lock it holds. */
import { messageOf } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import { readTextIfThere, removeIfThere, tryLock, writeFileAtomic } from "../os/files.ts";
import { type ProcessRef, processRef } from "../os/identity.ts";
import { signalProcess } from "../os/signals.ts";
import { isShortage } from "../os/shortage.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";
import { sleep } from "../base/sleep.ts";

/** How long a daemon that is replaced may take to stop. */
const REPLACE_WAIT_MS = 30_000;

export interface Held {
  /** Gives the directory back. */
  release(): void;
}

/** @throws StartFailure (stateUnusable) */
export function createStateDirectory(layout: Layout): void {
  try {
    for (const directory of layout.directories()) Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw unusable(layout, error);
  }
}

/** @throws StartFailure (usage) naming who has it; (stateUnusable) */
export async function takeStateDirectory(layout: Layout, replace: boolean): Promise<Held> {
  let lock = lockOf(layout);
  if (lock === undefined && replace) lock = await replaceHolder(layout);
  if (lock === undefined) {
    const pid = readTextIfThere(layout.pidFile)?.trim();
    throw new StartFailure(
      DAEMON_EXIT.usage,
      `a daemon${pid ? ` (pid ${pid})` : ""} runs on ${layout.stateDir} already`,
      "Stop it, add --replace to take its place, or choose another --state-dir.",
    );
  }
  try {
    // What a daemon that crashed has left would send clients to nobody.
    removeIfThere(layout.daemonJson);
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
        // A directory that has become unwritable: the lock alone says who has it.
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
    // The holder signs a moment after it has taken the lock; until then, what is there may be anybody's pid by now.
    const holder = asked ? undefined : holderOf(layout);
    if (holder !== undefined) asked = signalProcess(holder, "SIGTERM");
    const lock = lockOf(layout);
    if (lock !== undefined || performance.now() > deadline) return lock;
    await sleep(20);
  }
}

/** The holder of the lock says in the file who it is: a pid alone may belong to another process by now. */
function sign(lock: Deno.FsFile): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(processRef(Deno.pid))}\n`);
  // Over what is there, which takes no room of a full disk.
  lock.seekSync(0, Deno.SeekMode.Start);
  for (let done = 0; done < bytes.length;) done += lock.writeSync(bytes.subarray(done));
  lock.truncateSync(bytes.length);
}

/** The lock alone says that somebody has the directory; who that is can be told when there is room. */
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
  if (error instanceof Deno.errors.NotCapable) return error;
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `the state directory ${layout.stateDir} cannot be used: ${messageOf(error)}`,
    "It must be a directory that the daemon's user may write to, on a disk with space left.",
  );
}
