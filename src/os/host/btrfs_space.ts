/**
 * Free space on btrfs, from the kernel's own counters in /sys/fs/btrfs. The figures of statfs lack
 * two things that can refuse a write: the quota of a subvolume, and what is written and not yet on
 * the disk, which may be gigabytes. Trying instead would take, at the limit, the rest from the
 * worker.
 */
import { shellOutput } from "../processes/shell.ts";

/** Magic number of the file system (statfs). */
export const BTRFS_MAGIC = 0x9123683e;

/** Bytes. */
export interface BtrfsSpace {
  /** Of the file system or, if that is less, of the quota. */
  total: number;
  available: number;
  /** A quota gives less than the disk. */
  quota: boolean;
}

interface Place {
  /** The file system's UUID. */
  id: string;
  /** The subvolume's number. */
  subvolume: string;
}

const IDENTIFY = 'stat -f -c %i -- "$0" && ls /sys/fs/btrfs';

/** Only builtins of the shell: a proxy asks every second. */
const COUNTERS = `
cd "/sys/fs/btrfs/$0" || exit 1
size=0
for file in devices/*/size; do read -r sectors <"$file" && size=$((size + sectors * 512)); done
echo "devices $size"
for kind in allocation/*/; do
  line=
  for name in total_bytes disk_total bytes_used bytes_reserved bytes_may_use bytes_readonly; do
    read -r value <"$kind$name" || exit 1
    line="$line $value"
  done
  echo "$kind$line"
done
[ -d qgroups ] || exit 0
for group in qgroups/*_*/; do
  read -r flags <"\${group}limit_flags" || continue
  [ "$flags" = 0 ] && continue
  line=" $flags"
  for name in max_referenced max_exclusive referenced exclusive rsv_data rsv_meta_pertrans rsv_meta_prealloc; do
    read -r value <"$group$name" || exit 1
    line="$line $value"
  done
  echo "$group$line"
done
`;

/** By the device number, of which each subvolume has one. */
const places = new Map<number, Place | undefined>();

/**
 * undefined where the counters do not say it: no /sys, or a group of several subvolumes has a
 * quota.
 */
export function btrfsSpaceOf(directory: string): BtrfsSpace | undefined {
  const { dev } = Deno.statSync(directory);
  if (!places.has(dev)) places.set(dev, placeFrom(shellOutput(IDENTIFY, directory) ?? ""));
  const place = places.get(dev);
  const counters = place === undefined ? undefined : shellOutput(COUNTERS, place.id);
  return counters === undefined ? undefined : spaceFrom(counters, place!.subvolume);
}

/**
 * statfs identifies a subvolume by its file system's UUID, the second half of it combined with the
 * first (exclusive or), the subvolume's number in the low bits.
 * @param text what IDENTIFY prints
 */
export function placeFrom(text: string): Place | undefined {
  const [given = "", ...names] = text.trim().split("\n");
  if (!/^[0-9a-f]{1,16}$/.test(given)) return undefined;
  const identifier = BigInt(`0x${given}`);
  for (const id of names) {
    const digits = id.replaceAll("-", "");
    if (!/^[0-9a-f]{32}$/.test(digits)) continue;
    const part = (at: number) => BigInt(`0x${digits.slice(at * 8, at * 8 + 8)}`);
    const [high, low] = [part(0) ^ part(2), part(1) ^ part(3)];
    const subvolume = identifier ^ (high << 32n | low);
    // The number's upper half is 0 on every file system with fewer than four billion subvolumes.
    if (subvolume >> 32n === 0n) return { id, subvolume: String(subvolume) };
  }
  return undefined;
}

/** @param text what COUNTERS prints */
export function spaceFrom(text: string, subvolume: string): BtrfsSpace | undefined {
  let [size, allocated, room, ratio] = [0, 0, 0, 0];
  let limit: { total: number; available: number } | undefined;
  for (const line of text.trim().split("\n")) {
    const [name = "", ...words] = line.split(" ");
    const numbers = words.map(Number);
    if (!numbers.every(Number.isFinite)) return undefined;
    const [kind, of] = name.split("/");
    if (kind === "devices") size = numbers[0]!;
    if (kind === "allocation") {
      const [total, onDisk, used, reserved, mayUse, readOnly] = numbers;
      allocated += onDisk!;
      if (of !== "data" && of !== "mixed") continue;
      room = total! - used! - reserved! - mayUse! - readOnly!;
      ratio = onDisk! / total!;
    }
    if (kind === "qgroups") {
      // Which subvolumes belong to a group of a higher level is not said.
      if (!of!.startsWith("0_")) return undefined;
      if (of !== `0_${subvolume}`) continue;
      const [flags, mostReferenced, mostExclusive, referenced, exclusive, ...reserved] = numbers;
      const taken = reserved.reduce((sum, bytes) => sum + bytes, 0);
      for (
        const [bit, most, used] of [[1, mostReferenced!, referenced!], [
          2,
          mostExclusive!,
          exclusive!,
        ]] as const
      ) {
        const available = Math.max(0, most - used - taken);
        if ((flags! & bit) !== 0 && (limit === undefined || available < limit.available)) {
          limit = { total: most, available };
        }
      }
    }
  }
  if (size === 0 || !(ratio > 0)) return undefined;
  const disk = {
    total: size / ratio,
    available: Math.max(0, room + Math.max(0, size - allocated) / ratio),
  };
  return limit !== undefined && limit.available < disk.available
    ? { ...limit, quota: true }
    : { ...disk, quota: false };
}
