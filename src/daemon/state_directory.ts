/** A state directory and the right to it: one daemon at a time, known by the lock it holds. */
import { messageOf } from "../errors.ts";
import type { Layout } from "../layout.ts";
import { readTextIfThere, removeIfThere, tryLock, writeFileAtomic } from "../process/files.ts";
import { processRef } from "../process/identity.ts";
import { signalProcess } from "../process/signals.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

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
  // What a daemon that crashed has left would send clients to nobody.
  removeIfThere(layout.daemonJson);
  writeFileAtomic(layout.pidFile, `${Deno.pid}\n`, { mode: 0o600 });
  return {
    release() {
      removeIfThere(layout.daemonJson);
      removeIfThere(layout.pidFile);
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
  const holder = processRef(Number(readTextIfThere(layout.pidFile)));
  if (holder !== undefined) signalProcess(holder, "SIGTERM");
  const deadline = performance.now() + REPLACE_WAIT_MS;
  for (;;) {
    const lock = lockOf(layout);
    if (lock !== undefined || performance.now() > deadline) return lock;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function unusable(layout: Layout, error: unknown): StartFailure {
  return new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `the state directory ${layout.stateDir} cannot be used: ${messageOf(error)}`,
    "It must be a directory that the daemon's user may write to, on a disk with space left.",
  );
}
