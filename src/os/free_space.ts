/**
 * Free space on a disk. Workers are held, and no new ones are started, before the disk is full: the rest is for the
 * daemon, so that it can still store what the workers have printed.
 */
import { disk } from "./host_resources.ts";

/** Minimum free space, or minimum share of a small file system. */
const RESERVE_BYTES = 64 << 20;
const RESERVE_SHARE = 0.02;

export interface Room {
  /** Free bytes. */
  free: number;
  /** Bytes that must be free for workers to run. */
  needed: number;
  enough: boolean;
}

/** Extrapolates the use of space for this many polls. */
const POLLS_AHEAD = 2;

/** Polls the free space of a disk and extrapolates how fast it shrinks. */
export class RoomWatch {
  #before: number | undefined;
  readonly #look: (path: string, held: boolean) => Room;

  constructor(look: (path: string, held: boolean) => Room = roomOf) {
    this.#look = look;
  }

  /** Not enough, too, if twice the space used since the last poll would fall below the minimum. */
  look(path: string, held: boolean): Room {
    const room = this.#look(path, held);
    const used = this.#before === undefined ? 0 : Math.max(0, this.#before - room.free);
    this.#before = room.free;
    return { ...room, enough: room.enough && (used === 0 || room.free - POLLS_AHEAD * used >= room.needed) };
  }
}

/** @param held workers are held because of low free space; resuming needs 25 % more (hysteresis) */
export function roomOf(path: string, held = false): Room {
  const { total, available } = disk(path);
  const reserve = Math.min(RESERVE_BYTES, Math.ceil(total * RESERVE_SHARE));
  const needed = held ? Math.ceil(reserve * 1.25) : reserve;
  // Without permission to ask (total 0), rely on the first failing write.
  return { free: available, needed, enough: total === 0 || available >= needed };
}

/** "free space on the disk of PATH (3.1 MiB free, 64.0 MiB needed)". */
export function roomText(path: string, room: Room): string {
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `free space on the disk of ${path} (${mib(room.free)} free, ${mib(room.needed)} needed)`;
}
