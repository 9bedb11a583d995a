/** Load, memory and disk of the host, as far as the runtime can tell. Bytes throughout. */

export function cpuCount(): number {
  return navigator.hardwareConcurrency;
}

/** Means over 1, 5 and 15 minutes; empty where they may not be read. */
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

/** Node's `fs`, of which the runtime has no counterpart here, is loaded when it is first asked: a proxy starts without it. */
function statfs(path: string) {
  // deno-lint-ignore no-process-global
  return process.getBuiltinModule("node:fs").statfsSync(path);
}

/** Of the file system that holds `path`; `available` is what an unprivileged process may still use. */
export function disk(path: string): { total: number; available: number } {
  try {
    const stats = statfs(path);
    return { total: stats.blocks * stats.bsize, available: stats.bavail * stats.bsize };
  } catch {
    return { total: 0, available: 0 };
  }
}
