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
