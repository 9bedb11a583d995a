/** What is shown of each slot: its card's figures, its run, and what others use of it. */
import type { GpuReading } from "../../os/gpus/gpu_tools.ts";
import { USUAL_FREE } from "../../os/gpus/free_memory.ts";
import { ownersOf } from "../../os/gpus/owners.ts";
import { processesOf, readProcesses } from "../../os/processes/usage.ts";
import { isUsed, processesOn, sizeOf, whoText } from "./foreign_use.ts";
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
  /** What other processes than its run's use, as text; "": nothing that is known. */
  others: string;
  /** The card does not answer any more; a run still has it. */
  lost: boolean;
}

export interface HeldSlot {
  slot: number;
  runId: string | null;
}

/** A look is shown for this long. */
const LOOK_MS = 120_000;
const ANSWER_MS = 6000;

export class GpuStates {
  readonly #pool: GpuPool;
  #looked: { at: number; others: Map<number, string> } = { at: -Infinity, others: new Map() };

  constructor(pool: GpuPool) {
    this.#pool = pool;
  }

  /** From the newest figures; asks nobody. */
  of(slots: readonly HeldSlot[]): GpuState[] {
    const reading = this.#pool.newest;
    const looked = performance.now() - this.#looked.at < LOOK_MS ? this.#looked.others : undefined;
    return slots.map(({ slot, runId }) => {
      const device = this.#pool.deviceOf(slot);
      const card = reading === undefined ? undefined : this.#pool.cardOf(slot, reading);
      const used = card?.usedMb ?? null;
      const inUse = runId === null && isUsed(used, device?.memoryMb ?? null, USUAL_FREE);
      return {
        ...{ slot, runId, name: device?.name ?? "", uuid: device?.uuid ?? "", memoryMb: device?.memoryMb ?? null },
        ...{ usedMb: used, percent: card?.percent ?? null, watts: card?.watts ?? null, celsius: card?.celsius ?? null },
        others: looked?.get(slot) ?? (inUse ? `${sizeOf(used!)} in use by others` : ""),
        lost: device === undefined,
      };
    });
  }

  /** Asks the drivers anew, and who uses the cards. @param workerOf pid of a run's worker */
  async look(slots: readonly HeldSlot[], workerOf: (runId: string) => number | undefined): Promise<void> {
    const reading = await this.#pool.readWithin(ANSWER_MS);
    if (reading === undefined || !reading.tool) return;
    const [processes = [], all] = await Promise.all([this.#pool.processes(), readProcesses()]);
    const others = slots.flatMap(({ slot, runId }) => {
      const device = this.#pool.deviceOf(slot);
      const worker = runId === null ? undefined : workerOf(runId);
      const own = new Set(worker === undefined ? [] : processesOf(worker, all).map(({ pid }) => pid));
      const its = device === undefined ? [] : processesOn(device, processes).filter(({ pid }) => !own.has(pid));
      return its.length === 0 ? [] : [{ slot, its }];
    });
    const owners = await ownersOf(others.flatMap(({ its }) => its.slice(0, 4).map(({ pid }) => pid)));
    const texts = others.map(({ slot, its }) =>
      [slot, whoText(usedOn(slot, reading, this.#pool), its, owners)] as const
    );
    this.#looked = { at: performance.now(), others: new Map(texts) };
  }
}

function usedOn(slot: number, reading: GpuReading, pool: GpuPool): number {
  return pool.cardOf(slot, reading)?.usedMb ?? 0;
}
