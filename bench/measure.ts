/** Arithmetic for measurements. */
import process from "node:process";

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** @param q 0 … 1 */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;
}

/** Duration of the work in milliseconds. */
export async function timed(work: () => void | Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/**
 * Processor time of this process for the work, in seconds: other load on the machine changes it
 * little.
 */
export function processorSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** The middle one of `rounds` results. */
export async function medianOf(
  rounds: number,
  measure: () => number | Promise<number>,
): Promise<number> {
  const results: number[] = [];
  for (let i = 0; i < rounds; i++) results.push(await measure());
  return median(results);
}

export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

export interface ProcessFigures {
  /** Seconds of processor time so far. */
  cpuSeconds: number;
  rssBytes: number;
  /** The largest resident set so far. */
  peakBytes: number;
}

/** The kernel's numbers of a process; undefined if it has ended. */
export function processFigures(pid: number): ProcessFigures | undefined {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    const kilobytes = (name: string) =>
      Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) * 1024;
    // Ticks are hundredths of a second on every Linux.
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100,
      rssBytes: kilobytes("VmRSS"),
      peakBytes: kilobytes("VmHWM"),
    };
  } catch {
    return undefined;
  }
}
