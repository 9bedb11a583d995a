/**
 * A reserve of file descriptors. When the process runs out of descriptors, the reserve is released
 * for running work, and new runs and connections wait until the shortage is over.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { shellOutput } from "./shell.ts";
import { lacksDescriptors } from "./shortage.ts";

const POLL_MS = 1000;
/**
 * Enough to start a proxy, read a log and write a checkpoint at the same time; fewer under a low
 * limit.
 */
const HELD = { most: 24, share: 1 / 8 } as const;
/** No shortage while this many more can be opened. */
const WANTED = 8;

/** Whether the process is short of descriptors. */
export interface FileDescriptors {
  /** None is left except the reserve. */
  readonly short: boolean;
  /** Checks now instead of at the next poll. @returns `short` */
  check(): boolean;
  /** Called at the beginning of each shortage. */
  onShortage(listener: () => void): void;
}

/** Never short: for tests and embedded cores. */
export const NEVER_SHORT: FileDescriptors = {
  short: false,
  check: () => false,
  onShortage: () => {},
};

/** @throws MosaicError `unavailable` in a shortage */
export function requireDescriptors(descriptors: FileDescriptors, what: string): void {
  if (!descriptors.short) return;
  throw new MosaicError("unavailable", `cannot ${what}: no file descriptor is left`, {
    hint:
      "Work continues when descriptors are available again. Start the daemon with a higher limit (ulimit -n).",
  });
}

export class DescriptorReserve implements FileDescriptors {
  readonly #log: Logger;
  readonly #listeners: (() => void)[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #size: number;
  #held: Deno.FsFile[] = [];
  #short = false;

  /** @param limit of this process; undefined for none */
  constructor(log: Logger, limit = descriptorLimit()) {
    this.#log = log;
    this.#size = Math.min(HELD.most, Math.ceil((limit ?? Infinity) * HELD.share));
    this.check();
    this.#timer = setInterval(() => this.check(), POLL_MS);
  }

  get short(): boolean {
    return this.#short;
  }

  onShortage(listener: () => void): void {
    this.#listeners.push(listener);
  }

  check(): boolean {
    const missing = this.#size - this.#held.length;
    const { files, error } = open(missing + WANTED);
    if (error === undefined) {
      this.#held.push(...files.splice(0, missing));
      close(files);
      if (this.#short) this.#log.warn("file descriptors are available again");
      this.#short = false;
      return false;
    }
    close(files);
    if (!this.#short) this.#began(error);
    return true;
  }

  close(): void {
    clearInterval(this.#timer);
    close(this.#held);
  }

  #began(error: unknown): void {
    this.#short = true;
    const given = this.#held.length;
    close(this.#held);
    this.#log.error(
      { error: messageOf(error), held_back: given },
      "no file descriptor is left: new runs and connections wait; the reserve is released for running work",
    );
    for (const listener of this.#listeners) listener();
  }
}

/** @returns fewer files and the error if there is a shortage */
function open(count: number): { files: Deno.FsFile[]; error?: unknown } {
  const files: Deno.FsFile[] = [];
  try {
    // The permission plans allow /dev/null for this.
    while (files.length < count) files.push(Deno.openSync("/dev/null"));
  } catch (error) {
    if (lacksDescriptors(error)) return { files, error };
    close(files);
    throw error;
  }
  return { files };
}

function close(files: Deno.FsFile[]): void {
  for (const file of files.splice(0)) file.close();
}

let answer: { limit: number } | undefined;

/** This process's descriptor limit, which Deno raises to the hard limit; undefined: no limit. */
export function descriptorLimit(): number | undefined {
  // Asked once: each question starts a program.
  const { limit } = answer ??= { limit: Number(shellOutput("ulimit -n")) };
  return Number.isSafeInteger(limit) && limit > 0 ? limit : undefined;
}
