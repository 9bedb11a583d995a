/** Runs that share cards: which card has room for a run. Pure functions. */
import { bytes } from "../../base/text/format.ts";
import { fits, type NewShare } from "../../registry/gpus/gpu_rows.ts";
import type { Device } from "./devices.ts";

/** What a run declares of each of its cards: a part, or memory in MiB. */
export type ShareWish = { part: number } | { memoryMb: number };

/**
 * `pack`: onto the fullest card with room, so that whole cards stay free; `spread`: onto the
 * emptiest.
 */
export type SharePolicy = "pack" | "spread";

/** A card that nobody has alone. */
export interface Room {
  slot: number;
  /** Of the card, 0 to 1: what no run has declared. */
  left: number;
  /** Null: the driver does not tell. */
  memoryMb: number | null;
}

/** What a run declares; undefined: it wants whole cards. */
export function wishOf(
  { gpuShare, gpuMemoryMb }: { gpuShare: number | null; gpuMemoryMb: number | null },
): ShareWish | undefined {
  if (gpuMemoryMb !== null) return { memoryMb: gpuMemoryMb };
  return gpuShare === null ? undefined : { part: gpuShare };
}

/** The wish as a part of a card; undefined if it is in memory, and the card's is not known. */
function partOf(wish: ShareWish, memoryMb: number | null): number | undefined {
  if ("part" in wish) return wish.part;
  return memoryMb === null || memoryMb <= 0 ? undefined : wish.memoryMb / memoryMb;
}

/** Shares of `count` different cards; undefined if so many have no room. */
export function placed(
  wish: ShareWish,
  count: number,
  rooms: readonly Room[],
  policy: SharePolicy,
): NewShare[] | undefined {
  const possible = rooms.flatMap(({ slot, left, memoryMb }) => {
    const part = partOf(wish, memoryMb);
    return part === undefined || !fits(part, left) ? [] : [{ slot, left, part, memoryMb }];
  }).toSorted((a, b) => (policy === "pack" ? a.left - b.left : b.left - a.left) || a.slot - b.slot);
  if (possible.length < count) return undefined;
  return possible.slice(0, count).map(({ slot, part, memoryMb }) => ({
    slot,
    part,
    memoryMb: "memoryMb" in wish ? wish.memoryMb : memoryMb === null ? null : part * memoryMb,
  }));
}

const size = (mb: number) => bytes(mb * (1 << 20));

/** "6.00 GiB of a GPU", "25 % of each of 2 GPUs". */
export function wishText(wish: ShareWish, count: number): string {
  const what = "part" in wish ? `${percent(wish.part)} %` : size(wish.memoryMb);
  return `${what} of ${count === 1 ? "a GPU" : `each of ${count} GPUs`}`;
}

/** "gpu 0 has 4.00 GiB left", of cards that have too little. */
export function roomText({ slot, left, memoryMb }: Room): string {
  return `gpu ${slot} has ${memoryMb === null ? `${percent(left)} %` : size(left * memoryMb)} left`;
}

const percent = (part: number) => Math.round(part * 1000) / 10;

/**
 * What a program is told of its share. JAX takes a part of the card's memory at its start,
 * TensorFlow all of it unless it is told not to; where an MPS server runs, it enforces memory and
 * part. Without one, its variables have no effect.
 * @param shares in the order of the devices
 */
export function shareVariables(
  shares: readonly { part: number; memoryMb: number | null }[],
  devices: readonly (Device | undefined)[],
  byPart: boolean,
): Record<string, string> {
  if (shares.length === 0) return {};
  const part = Math.min(...shares.map((share) => share.part));
  const known = shares.flatMap(({ memoryMb }) => memoryMb === null ? [] : [Math.floor(memoryMb)]);
  const isNvidia = devices.every((device) => device === undefined || device.vendor === "nvidia");
  return {
    XLA_PYTHON_CLIENT_MEM_FRACTION: (Math.floor(part * 1000) / 1000).toFixed(3),
    TF_FORCE_GPU_ALLOW_GROWTH: "true",
    ...(known.length === shares.length
      ? {
        MOSAIC_GPU_MEMORY_MB: String(Math.min(...known)),
        ...(isNvidia
          ? { CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: known.map((mb, at) => `${at}=${mb}M`).join(",") }
          : {}),
      }
      : {}),
    ...(byPart && isNvidia
      ? { CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: String(Math.max(1, Math.round(part * 100))) }
      : {}),
  };
}
