/** Load, memory and disk of the host. Sizes in bytes. */
import { shellOutput } from "../processes/shell.ts";
import { BTRFS_MAGIC, btrfsSpaceOf } from "./btrfs_space.ts";

export interface DiskSpace {
  /** Size of the file system, or of the quota there; 0 if unknown. */
  total: number;
  /** Available to unprivileged processes; 0 if unknown. */
  available: number;
  /** Whether a quota gives less than the disk; undefined: the figures do not include one. */
  quota?: boolean;
}

export function cpuCount(): number {
  return navigator.hardwareConcurrency;
}

/** Means over 1, 5 and 15 minutes; empty if not permitted. */
export function loadAverage(): number[] {
  try {
    return Deno.loadavg();
  } catch {
    return [];
  }
}

export function memory(): { total: number; available: number } {
  try {
    const info = Deno.systemMemoryInfo();
    return { total: info.total, available: info.available };
  } catch {
    return { total: 0, available: 0 };
  }
}

/**
 * Deno has no statfs. Loads `node:fs` at the first call only, to keep the start of a proxy fast.
 */
function statfs(path: string) {
  // deno-lint-ignore no-process-global
  return process.getBuiltinModule("node:fs").statfsSync(path);
}

export function disk(path: string): DiskSpace {
  try {
    const { type, blocks, bsize, bavail } = statfs(path);
    return withCounters(path, type, { total: blocks * bsize, available: bavail * bsize });
  } catch {
    return { total: 0, available: 0 };
  }
}

/**
 * The same for a process that asks only once or twice: the program `stat` takes 3 ms, loading
 * Node's modules 33 ms and 11 MiB. Where that program cannot be started, asks as `disk` does.
 */
export function diskAtStart(path: string): DiskSpace {
  const [type, blockBytes, blocks, available] = numbersOf(
    'stat -f -c "0x%t %S %b %a" -- "$0"',
    path,
  );
  if (available === undefined) return disk(path);
  return withCounters(path, type!, {
    total: blocks! * blockBytes!,
    available: available * blockBytes!,
  });
}

/** statfs knows when metadata is used up, the counters know the rest. */
function withCounters(path: string, type: number, stated: DiskSpace): DiskSpace {
  const counted = type === BTRFS_MAGIC ? btrfsSpaceOf(path) : undefined;
  if (counted === undefined) return stated;
  return {
    total: counted.quota ? counted.total : stated.total,
    available: Math.min(stated.available, counted.available),
    quota: counted.quota,
  };
}

/** The numbers that a short script prints; none if it cannot be started or fails. */
function numbersOf(script: string, word: string): number[] {
  try {
    return shellOutput(script, word)?.match(/0x[0-9a-f]+|\d+/g)?.map(Number) ?? [];
  } catch {
    return [];
  }
}
