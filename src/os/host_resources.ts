/** Load, memory and disk of the host. Sizes in bytes. */

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

/** Deno has no statfs. Loads `node:fs` at the first call only, to keep the start of a proxy fast. */
function statfs(path: string) {
  // deno-lint-ignore no-process-global
  return process.getBuiltinModule("node:fs").statfsSync(path);
}

/** Size of the file system of `path`, and the space available to unprivileged processes; zeros if unknown. */
export function disk(path: string): { total: number; available: number } {
  try {
    const stats = statfs(path);
    return { total: stats.blocks * stats.bsize, available: stats.bavail * stats.bsize };
  } catch {
    return { total: 0, available: 0 };
  }
}
