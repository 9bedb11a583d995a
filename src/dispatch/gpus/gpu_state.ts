/** What is shown of each slot: its card's figures, its run, and what others use of it. */
import type { GpuReading } from "../../os/gpus/gpu_tools.ts";
import { USUAL_FREE } from "../../os/gpus/free_memory.ts";
import { ownersOf } from "../../os/gpus/owners.ts";
import { processesOf, readProcesses } from "../../os/processes/usage.ts";
import { isUsed, processesOn, sizeOf, whoText } from "./foreign_use.ts";
import type { GpuSlot } from "../../registry/gpus/gpu_rows.ts";
import type { GpuPool } from "./gpu_pool.ts";

export interface GpuState {
  slot: number;
  /** Null: no run has it. */
  runId: string | null;
  /** "" if unknown, as the UUID. */
  name: string;
  uuid: string;
  memoryMb: number | null;
  usedMb: number | null;
  percent: number | null;
  watts: number | null;
  celsius: number | null;
  /** Runs that share it; then `runId` is null. */
  shares: GpuShareState[];
  /** What other processes than its runs' use, as text; "": nothing that is known. */
  others: string;
  /** The card does not answer any more; a run still has it. */
  lost: boolean;
  /** What is wrong with it, as text; "": nothing that is known. */
  health: string;
  /** How it is connected best, and with which slots: "NV12", "PHB with 1, 2"; "": not known. */
  link: string;
}

/** A run that has a part of the card. */
export interface GpuShareState {
  runId: string;
  /** Of the card, 0 to 1. */
  part: number;
  /** Declared; null: not known, as the others. */
  memoryMb: number | null;
  usedMb: number | null;
}

/** A look is shown for this long. */
const LOOK_MS = 120_000;
const ANSWER_MS = 6000;

export class GpuStates {
  readonly #pool: GpuPool;
  /** By slot; and by slot and run, MiB. */
  #looked = { at: -Infinity, others: new Map<number, string>(), used: new Map<string, number>() };

  constructor(pool: GpuPool) {
    this.#pool = pool;
  }

  /** From the newest figures; asks nobody. */
  of(slots: readonly GpuSlot[]): GpuState[] {
    const reading = this.#pool.newest;
    const looked = performance.now() - this.#looked.at < LOOK_MS ? this.#looked : undefined;
    return slots.map(({ slot, runId, shares }) => {
      const device = this.#pool.deviceOf(slot);
      const card = reading === undefined ? undefined : this.#pool.cardOf(slot, reading);
      const used = card?.usedMb ?? null;
      const inUse = runId === null && shares.length === 0 &&
        isUsed(used, device?.memoryMb ?? null, USUAL_FREE);
      return {
        ...{
          slot,
          runId,
          name: device?.name ?? "",
          uuid: device?.uuid ?? "",
          memoryMb: device?.memoryMb ?? null,
        },
        ...{
          usedMb: used,
          percent: card?.percent ?? null,
          watts: card?.watts ?? null,
          celsius: card?.celsius ?? null,
        },
        shares: shares.map((share) => ({
          ...share,
          usedMb: looked?.used.get(`${slot} ${share.runId}`) ?? null,
        })),
        others: looked?.others.get(slot) ?? (inUse ? `${sizeOf(used!)} in use by others` : ""),
        lost: device === undefined,
        health: this.#pool.healthOf(slot),
        link: this.#linkOf(slot, slots),
      };
    });
  }

  #linkOf(slot: number, slots: readonly GpuSlot[]): string {
    const links = slots.flatMap(({ slot: other }) => {
      const link = other === slot ? undefined : this.#pool.linkOf(slot, other);
      return link === undefined ? [] : [{ other, ...link }];
    });
    const best = Math.max(...links.map(({ closeness }) => closeness));
    const near = links.filter(({ closeness }) => closeness === best);
    if (near.length === 0) return "";
    return near.length === links.length
      ? near[0]!.name
      : `${near[0]!.name} with ${near.map(({ other }) => other).join(", ")}`;
  }

  /** Asks the drivers anew, and who uses the cards. @param workerOf pid of a run's worker */
  async look(
    slots: readonly GpuSlot[],
    workerOf: (runId: string) => number | undefined,
  ): Promise<void> {
    const reading = await this.#pool.readWithin(ANSWER_MS);
    if (reading === undefined || !reading.tool) return;
    const [processes = [], all] = await Promise.all([this.#pool.processes(), readProcesses()]);
    const used = new Map<string, number>();
    const others = slots.flatMap(({ slot, runId, shares }) => {
      const device = this.#pool.deviceOf(slot);
      const on = device === undefined ? [] : processesOn(device, processes);
      const own = new Set<number>();
      for (const holder of runId === null ? shares.map((share) => share.runId) : [runId]) {
        const worker = workerOf(holder);
        const pids = new Set(
          worker === undefined ? [] : processesOf(worker, all).map(({ pid }) => pid),
        );
        for (const pid of pids) own.add(pid);
        const mb = on.flatMap(({ pid, usedMb }) => pids.has(pid) ? usedMb ?? [] : []).reduce(
          (a, b) => a + b,
          0,
        );
        if (runId === null && on.length > 0) used.set(`${slot} ${holder}`, mb);
      }
      const its = on.filter(({ pid }) => !own.has(pid));
      return its.length === 0 ? [] : [{ slot, its }];
    });
    const owners = await ownersOf(
      others.flatMap(({ its }) => its.slice(0, 4).map(({ pid }) => pid)),
    );
    const texts = others.map(({ slot, its }) =>
      [slot, whoText(usedOn(slot, reading, this.#pool), its, owners)] as const
    );
    this.#looked = { at: performance.now(), others: new Map(texts), used };
  }
}

function usedOn(slot: number, reading: GpuReading, pool: GpuPool): number {
  return pool.cardOf(slot, reading)?.usedMb ?? 0;
}
