/**
 * File descriptors, looked after. A few are held back from the start; when none is left for anybody else they are given
 * to the work that is under way, and what would use more of them (new runs, new connections) waits until there are again.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { askShell } from "./shell.ts";
import { lacksDescriptors } from "./shortage.ts";

const LOOK_MS = 1000;
/** As many as a start of a proxy, a read of a log and a checkpoint need at one time; fewer under a low limit. */
const HELD = { most: 24, share: 1 / 8 } as const;
/** There is no shortage while so many more can be had. */
const WANTED = 8;

/** What others ask of it. */
export interface FileDescriptors {
  /** None is left beyond those that were held back. */
  readonly short: boolean;
  /** Looks at once instead of within a second; says what `short` says then. */
  look(): boolean;
  /** Called each time when a shortage begins. */
  onShortage(listener: () => void): void;
}

/** Never short: for a core without a process of its own to look after. */
export const PLENTY: FileDescriptors = { short: false, look: () => false, onShortage: () => {} };

/** @throws MosaicError `unavailable` in a shortage */
export function requireDescriptors(descriptors: FileDescriptors, what: string): void {
  if (!descriptors.short) return;
  throw new MosaicError("unavailable", `cannot ${what}: no file descriptor is left`, {
    hint: "Work goes on by itself when there are some again; start the daemon with a higher limit (ulimit -n).",
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
    this.look();
    this.#timer = setInterval(() => this.look(), LOOK_MS);
  }

  get short(): boolean {
    return this.#short;
  }

  onShortage(listener: () => void): void {
    this.#listeners.push(listener);
  }

  look(): boolean {
    const missing = this.#size - this.#held.length;
    const { files, error } = open(missing + WANTED);
    if (error === undefined) {
      this.#held.push(...files.splice(0, missing));
      close(files);
      if (this.#short) this.#log.warn("there are file descriptors again");
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
      "no file descriptor is left: new runs and connections wait, those held back are for the runs there are",
    );
    for (const listener of this.#listeners) listener();
  }
}

/** @returns fewer, and why, where there are not so many */
function open(count: number): { files: Deno.FsFile[]; error?: unknown } {
  const files: Deno.FsFile[] = [];
  try {
    // The runtime's permissions name the null device for this.
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

/** The most descriptors this process may have; the runtime has raised it to the hard limit. Undefined for no limit. */
export function descriptorLimit(): number | undefined {
  const limit = Number(askShell("ulimit -n"));
  return Number.isSafeInteger(limit) && limit > 0 ? limit : undefined;
}
