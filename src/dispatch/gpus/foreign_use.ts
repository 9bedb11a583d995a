/** What others use of a card that no run has: pure decisions, and their text. */
import { bytes } from "../../base/text/format.ts";
import type { Card, GpuProcess } from "../../os/gpus/card.ts";
import type { FreeRule } from "../../os/gpus/free_memory.ts";
import type { Owner } from "../../os/gpus/owners.ts";
import type { Device } from "./devices.ts";

const NAMED = 2;

/**
 * Programs on this device whose memory counts, largest first. AMD's tool does not say on which card
 * one is.
 */
export function processesOn(
  device: Device,
  processes: readonly GpuProcess[],
  ignored: readonly string[] = [],
): GpuProcess[] {
  return processes.filter(({ uuid, name }) =>
    device.uuid !== "" && uuid === device.uuid && !ignored.includes(name)
  )
    .toSorted((a, b) => (b.usedMb ?? 0) - (a.usedMb ?? 0));
}

/** The runs that share a card. */
export interface Sharers {
  /** Their processes. */
  pids: ReadonlySet<number>;
  /** What they have declared, together. */
  declaredMb: number;
}

/**
 * Megabytes that others use; null if nobody says. @param card undefined for a MIG device, of which
 * only processes are told
 */
export function usedMb(
  device: Device,
  card: Card | undefined,
  processes: readonly GpuProcess[],
  rule: FreeRule,
  own?: Sharers,
): number | null {
  const mine = processes.filter(({ uuid }) => device.uuid !== "" && uuid === device.uuid);
  const counts = ({ pid, name }: GpuProcess) =>
    rule.ignored.includes(name) || own?.pids.has(pid) === true;
  const sum = (of: readonly GpuProcess[]) =>
    of.reduce((total, { usedMb }) => total + (usedMb ?? 0), 0);
  // Without a total it is the host's memory, which everybody uses.
  if (card !== undefined && card.usedMb !== null && card.memoryMb !== null) {
    // A tool that names no process on the card: the runs are believed.
    const unnamed = own !== undefined && mine.length === 0 ? own.declaredMb : 0;
    return Math.max(0, card.usedMb - unnamed - sum(mine.filter(counts)));
  }
  return mine.length === 0 ? null : sum(mine.filter((its) => !counts(its)));
}

/** Whether so much is too much. */
export function isUsed(used: number | null, memoryMb: number | null, rule: FreeRule): boolean {
  return used !== null && used > Math.max(rule.mb, (memoryMb ?? 0) * rule.percent / 100);
}

/** "gpu 1: pid 4123 of ada, python, 22.1 GiB". */
export function useText(
  slot: number,
  device: Device,
  used: number,
  processes: readonly GpuProcess[],
  owners: ReadonlyMap<number, Owner>,
): string {
  return `${nameOf(slot, device)}: ${whoText(used, processes, owners)}`;
}

/** "gpu 1: given out by another mosaic daemon, pid 77 of ada". */
export function lockText(
  slot: number,
  device: Device,
  pid: number | undefined,
  owners: ReadonlyMap<number, Owner>,
): string {
  const user = pid === undefined ? undefined : owners.get(pid)?.user;
  const who = `${pid === undefined ? "" : `, pid ${pid}`}${
    user === undefined ? "" : ` of ${user}`
  }`;
  return `${nameOf(slot, device)}: given out by another mosaic daemon${who}`;
}

function nameOf(slot: number, { card, instance }: Device): string {
  const number = card < 0 ? slot : card;
  return instance === null ? `gpu ${number}` : `gpu ${number} MIG ${instance}`;
}

/** "pid 4123 of ada, python, 22.1 GiB". */
export function whoText(
  used: number,
  processes: readonly GpuProcess[],
  owners: ReadonlyMap<number, Owner>,
): string {
  if (processes.length === 0) return `${sizeOf(used)} in use, of no process that the driver names`;
  const named = processes.slice(0, NAMED).map(({ pid, name, usedMb }) => {
    const owner = owners.get(pid);
    const parts = [
      owner === undefined ? `pid ${pid}` : `pid ${pid} of ${owner.user}`,
      name || owner?.name || "",
      usedMb === null ? "" : sizeOf(usedMb),
    ];
    return parts.filter((part) => part !== "").join(", ");
  });
  const more = processes.length - named.length;
  return `${named.join("; ")}${more === 0 ? "" : `; and ${more} more`}`;
}

export const sizeOf = (mb: number): string => bytes(mb * (1 << 20));
