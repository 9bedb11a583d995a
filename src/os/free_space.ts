/**
 * Free space on a disk. Workers are held, and no new ones are started, before the disk is full: the rest is for the
 * daemon, so that it can still store what the workers have printed.
 */
import { disk } from "./host_resources.ts";

/** Minimum free space, or minimum share of a small file system. */
const RESERVE_BYTES = 64 << 20;
const RESERVE_SHARE = 0.02;

export interface FreeSpace {
  /** Free bytes. */
  free: number;
  /** Bytes that must be free for workers to run. */
  needed: number;
  enough: boolean;
}

/** Extrapolates the use of space for this many polls. */
const POLLS_AHEAD = 2;

/** Polls the free space of a disk and extrapolates how fast it shrinks. */
export class FreeSpacePoll {
  #before: number | undefined;
  readonly #measure: (path: string, held: boolean) => FreeSpace;

  constructor(measure: (path: string, held: boolean) => FreeSpace = freeSpaceOf) {
    this.#measure = measure;
  }

  /** Not enough, too, if twice the space used since the last poll would fall below the minimum. */
  poll(path: string, held: boolean): FreeSpace {
    const space = this.#measure(path, held);
    const used = this.#before === undefined ? 0 : Math.max(0, this.#before - space.free);
    this.#before = space.free;
    return { ...space, enough: space.enough && (used === 0 || space.free - POLLS_AHEAD * used >= space.needed) };
  }
}

/** @param held workers are held because of low free space; resuming needs 25 % more (hysteresis) */
export function freeSpaceOf(path: string, held = false): FreeSpace {
  const { total, available } = disk(path);
  const reserve = Math.min(RESERVE_BYTES, Math.ceil(total * RESERVE_SHARE));
  const needed = held ? Math.ceil(reserve * 1.25) : reserve;
  // Without permission to ask (total 0), rely on the first failing write.
  return { free: available, needed, enough: total === 0 || available >= needed };
}

/** "free space on the disk of PATH (3.1 MiB free, 64.0 MiB needed)". */
export function freeSpaceText(path: string, space: FreeSpace): string {
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `free space on the disk of ${path} (${mib(space.free)} free, ${mib(space.needed)} needed)`;
}
