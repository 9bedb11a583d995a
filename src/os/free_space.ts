/**
 * Room on a disk. Workers are held, and none is started, before the last of it is used: what is left then is the
 * daemon's, so that what was printed can still be stored.
 */
import { disk } from "./host_resources.ts";

/** Below this, or this share of a small file system, a disk counts as full. */
const RESERVE_BYTES = 64 << 20;
const RESERVE_SHARE = 0.02;

export interface Room {
  /** Bytes that may still be used. */
  free: number;
  /** Bytes that must be free for work to go on. */
  needed: number;
  enough: boolean;
}

/** A disk that is being filled is full before it is: so many looks ahead. */
const LOOKS_AHEAD = 2;

/** Looks at a disk again and again, and sees how fast it is being filled, whoever does it. */
export class RoomWatch {
  #before: number | undefined;
  readonly #look: (path: string, held: boolean) => Room;

  constructor(look: (path: string, held: boolean) => Room = roomOf) {
    this.#look = look;
  }

  /** There is not enough either when what was used since the last look would not be there twice more. */
  look(path: string, held: boolean): Room {
    const room = this.#look(path, held);
    const used = this.#before === undefined ? 0 : Math.max(0, this.#before - room.free);
    this.#before = room.free;
    return { ...room, enough: room.enough && (used === 0 || room.free - LOOKS_AHEAD * used >= room.needed) };
  }
}

/** @param held whether work stands still for want of room: it goes on when there is a little more than is needed. */
export function roomOf(path: string, held = false): Room {
  const { total, available } = disk(path);
  const reserve = Math.min(RESERVE_BYTES, Math.ceil(total * RESERVE_SHARE));
  const needed = held ? Math.ceil(reserve * 1.25) : reserve;
  // Where the runtime may not ask (total 0), the first write that fails tells.
  return { free: available, needed, enough: total === 0 || available >= needed };
}

/** For people: "room on the disk of PATH (3.1 MiB free, 64.0 MiB needed)". */
export function roomText(path: string, room: Room): string {
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `room on the disk of ${path} (${mib(room.free)} free, ${mib(room.needed)} needed)`;
}
