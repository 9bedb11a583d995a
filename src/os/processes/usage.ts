/**
 * Current resource use of processes. One shell reads /proc, because Deno refuses most of it under a
 * permission set.
 */
import { shellOutputLater } from "./external_program.ts";

export interface ProcessUsage {
  pid: number;
  parent: number;
  group: number;
  /** Processor time so far, in hundredths of a second (USER_HZ, the same on all of Linux). */
  ticks: number;
  residentBytes: number;
}

const STATS =
  'getconf PAGESIZE; for f in /proc/[0-9]*/stat; do { read -r l <"$f" && printf "%s\\n" "$l"; } 2>/dev/null; done; :';

/** All processes of the host; none if they cannot be read. */
export async function readProcesses(): Promise<ProcessUsage[]> {
  return parseStats(await shellOutputLater(STATS) ?? "");
}

/** @param text the page size, then lines of /proc/PID/stat */
export function parseStats(text: string): ProcessUsage[] {
  const [page, ...lines] = text.split("\n");
  return lines.filter((line) => line !== "").map((line) => {
    // The command's name is in parentheses and may itself contain parentheses.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return {
      pid: Number.parseInt(line),
      parent: Number(fields[1]),
      group: Number(fields[2]),
      ticks: Number(fields[11]) + Number(fields[12]),
      residentBytes: Number(fields[21]) * Number(page),
    };
  });
}

/**
 * The members of the worker's process group and of the groups of its members' children, with all
 * their descendants.
 */
export function processesOf(worker: number, all: readonly ProcessUsage[]): ProcessUsage[] {
  const group = all.find(({ pid }) => pid === worker)?.group;
  if (group === undefined) return [];
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found = new Set(all.filter((p) => p.group === group));
  for (const process of found) {
    for (const child of children.get(process.pid) ?? []) found.add(child);
  }
  return [...found];
}
