/**
 * Free space on a disk. Workers are held, and no new ones are started, before the disk is full: the
 * rest is for the daemon, so that it can still store what the workers have printed.
 */
import { messageOf } from "../../base/errors.ts";
import { fileSystemOf } from "./file_system.ts";
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
  /**
   * The disk has this free, but a quota (or a file system that counts otherwise) does not give it.
   */
  refused?: boolean;
  /** Of a quota. */
  quota?: boolean;
}

/**
 * On a copy-on-write file system, this much must be writable now: it needs new space for every
 * write.
 */
const COPYING_BYTES = 16 << 20;
const COPYING_SHARE = 0.25;

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
    return {
      ...space,
      enough: space.enough && (used === 0 || space.free - POLLS_AHEAD * used >= space.needed),
    };
  }
}

/** @param held workers are held because of low free space; resuming needs 25 % more (hysteresis) */
export function freeSpaceOf(path: string, held = false): FreeSpace {
  const { total, available, quota } = disk(path);
  const copying = Math.min(COPYING_BYTES, Math.ceil(total * COPYING_SHARE));
  const share = Math.min(RESERVE_BYTES, Math.ceil(total * RESERVE_SHARE));
  const more = (bytes: number) => held ? Math.ceil(bytes * 1.25) : bytes;
  const needed = more(quota === undefined ? share : Math.max(share, copying));
  // Without permission to ask (total 0), rely on the first failing write.
  const space = {
    free: available,
    needed,
    enough: total === 0 || available >= needed,
    ...(quota ? { quota } : {}),
  };
  if (!space.enough || quota !== undefined || fileSystemOf(path).kind !== "copy_on_write") {
    return space;
  }
  const room = Math.min(needed, more(copying));
  return roomFor(path, room) ? space : { free: 0, needed: room, enough: false, refused: true };
}

/**
 * Whether so much can be written below a directory, where no figures say it. The bytes are reserved
 * as soon as they are in memory, and given back before they reach the disk.
 */
function roomFor(directory: string, bytes: number): boolean {
  const path = `${directory}/.room-${crypto.randomUUID()}.tmp`;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
  } catch (error) {
    return !isFullDisk(error);
  }
  try {
    // Nobody sees it, and nothing of it is left if this process is killed.
    Deno.removeSync(path);
    const chunk = new Uint8Array(Math.min(bytes, 1 << 20));
    for (let at = 0; at < bytes;) {
      at += file.writeSync(chunk.subarray(0, Math.min(chunk.length, bytes - at)));
    }
    return true;
  } catch (error) {
    return !isFullDisk(error);
  } finally {
    // Its last name is gone, so what was not written yet never is. (Truncating would need space.)
    file.close();
  }
}

function isFullDisk(error: unknown): boolean {
  return /no space|quota/i.test(messageOf(error));
}

/** "free space on the disk of PATH (3.1 MiB free, 64.0 MiB needed)". */
export function freeSpaceText(path: string, space: FreeSpace): string {
  if (space.refused) {
    return `free space on the disk of ${path} (a quota, or its file system, refuses ${
      Math.round(space.needed / 2 ** 20)
    } MiB more)`;
  }
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  const where = space.quota ? "in the quota" : "on the disk";
  return `free space ${where} of ${path} (${mib(space.free)} free, ${mib(space.needed)} needed)`;
}
