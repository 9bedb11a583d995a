/**
 * Whether cards that no run has alone are really free, and whether others use those that runs
 * share. Asked before a run gets one: of a reading that is a few seconds old, or else after the
 * next, which wakes the dispatcher. While nothing changes the tools are asked less and less often.
 */
import type { GpuReading, GpuTools } from "../../os/gpus/gpu_tools.ts";
import type { FreeRule } from "../../os/gpus/free_memory.ts";
import { ownersOf } from "../../os/gpus/owners.ts";
import type { Card, GpuProcess } from "../../os/gpus/card.ts";
import type { Device } from "./devices.ts";
import { isUsed, lockText, processesOn, type Sharers, usedMb, useText } from "./foreign_use.ts";

export interface FreeSlots {
  usable: number[];
  /** What others use of the rest, as text for people. */
  used: string[];
  /** What is known is too old: nothing is given out before the tools answer. */
  asking: boolean;
  /**
   * While it is too old: which nobody else used at the last look; undefined if one of them was not
   * looked at.
   */
  likely?: number[] | undefined;
}

const FRESH_MS = 5000;
const MOST_MS = 40_000;

/** What it needs of the pool. */
export interface CardSource {
  /** @param freshMs how old the figures may be */
  read(freshMs: number): Promise<GpuReading>;
  cardOf(slot: number, reading: GpuReading): Card | undefined;
  deviceOf(slot: number): Device | undefined;
  /** Of each of these slots that runs share: what they use. */
  sharersOf(slots: readonly number[]): Promise<Map<number, Sharers>>;
  /** Slots that were told are given out even if no tool works. */
  isTold: boolean;
  /** Those that other daemons of the host have given to runs, with a pid. */
  lockedByOthers(slots: readonly number[]): Promise<Map<number, number | undefined>>;
  isLockedByOther(slot: number): boolean;
}

interface Found {
  at: number;
  /** The slots that it is of. */
  looked: ReadonlySet<number>;
  used: Map<number, string>;
  /** Of these, those that another daemon has locked. */
  locked: ReadonlySet<number>;
  problem: string;
}

export class FreeCheck {
  readonly #rule: FreeRule;
  readonly #source: CardSource;
  readonly #tools: Pick<GpuTools, "processes">;
  #found: Found | undefined;
  #inProgress = false;
  /** What was asked for, and how old an answer may be before it is asked for again. */
  #key = "";
  #patienceMs = 0;

  constructor(rule: FreeRule, source: CardSource, tools: Pick<GpuTools, "processes">) {
    this.#rule = rule;
    this.#source = source;
    this.#tools = tools;
  }

  /**
   * @param wanting stands for the runs that want cards: others are asked for at once @param then
   * called after the answer
   */
  of(free: readonly number[], wanting: string, then: () => void): FreeSlots {
    // A daemon that has released a card need not be waited for any longer.
    const isReleased = (slot: number) => !this.#source.isLockedByOther(slot);
    if (this.#found?.locked.values().some(isReleased)) this.forget();
    const found = this.#found;
    const age = found === undefined ? Infinity : performance.now() - found.at;
    const used = found === undefined ? [] : free.flatMap((slot) => found.used.get(slot) ?? []);
    if (found !== undefined && found.problem !== "") used.push(found.problem);
    if (found !== undefined && age < FRESH_MS && free.every((slot) => found.looked.has(slot))) {
      const usable = found.problem === "" ? free.filter((slot) => !found.used.has(slot)) : [];
      return { usable, used, asking: false };
    }
    const key = `${free} ${wanting}`;
    if (key !== this.#key) this.#patienceMs = 0;
    this.#key = key;
    if (age >= this.#patienceMs && !this.#inProgress) {
      this.#inProgress = true;
      this.#ask(free).finally(() => {
        this.#inProgress = false;
        then();
      });
    }
    // A card that was free a while ago is looked at again before it is given out.
    const known = found !== undefined && free.every((slot) => found.looked.has(slot));
    const likely = found?.problem ? [] : free.filter((slot) => !found?.used.has(slot));
    return { usable: [], used, asking: true, likely: known ? likely : undefined };
  }

  /** What is known is wrong: the next call asks. */
  forget(): void {
    this.#found = undefined;
    this.#patienceMs = 0;
  }

  async #ask(free: readonly number[]): Promise<void> {
    // Older figures may still show the run that has just freed a card.
    const reading = await this.#source.read(0);
    const failed = reading.tool && reading.cards.length === 0 && !reading.complete;
    const locked = await this.#source.lockedByOthers(free);
    const used = failed || !reading.tool
      ? new Map<number, string>()
      : await this.#usedOf(free, reading, locked);
    const problem = failed && !this.#source.isTold ? reading.problem : "";
    this.#patienceMs = Math.min(MOST_MS, Math.max(FRESH_MS, this.#patienceMs * 2));
    this.#found = {
      at: performance.now(),
      looked: new Set(free),
      locked: new Set(locked.keys()),
      used,
      problem,
    };
  }

  async #usedOf(
    free: readonly number[],
    reading: GpuReading,
    locked: ReadonlyMap<number, number | undefined>,
  ): Promise<Map<number, string>> {
    const looked = free.map((slot) => ({
      slot,
      device: this.#source.deviceOf(slot),
      card: this.#source.cardOf(slot, reading),
    }))
      .filter((its): its is typeof its & { device: Device } => its.device !== undefined);
    const rule = this.#rule;
    // A second call of the tool, only if some card is in use, or does not say.
    const unclear = looked.some(({ device, card }) => {
      const used = card?.usedMb ?? null;
      return used === null || isUsed(used, device.memoryMb, { ...rule, ignored: [] });
    });
    const processes = unclear ? await this.#tools.processes() ?? [] : [];
    const sharers = unclear ? await this.#source.sharersOf(free) : new Map<number, Sharers>();
    const blocked = looked.flatMap(({ slot, device, card }) => {
      const own = sharers.get(slot);
      const used = usedMb(device, card, processes, rule, own);
      if (used === null || !isUsed(used, device.memoryMb, rule)) return [];
      const its = processesOn(device, processes, rule.ignored).filter(({ pid }) =>
        !own?.pids.has(pid)
      );
      return [{ slot, device, used, its }];
    });
    const owners = await ownersOf([
      ...blocked.flatMap(({ its }) => its.slice(0, 4).map(({ pid }: GpuProcess) => pid)),
      ...[...locked.values()].filter((pid) => pid !== undefined),
    ]);
    return new Map([
      ...looked.flatMap(({ slot, device }) =>
        locked.has(slot) ? [[slot, lockText(slot, device, locked.get(slot), owners)] as const] : []
      ),
      // Who uses its memory says more.
      ...blocked.map((
        { slot, device, used, its },
      ) => [slot, useText(slot, device, used, its, owners)] as const),
    ]);
  }
}
