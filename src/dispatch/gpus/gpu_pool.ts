/**
 * The GPUs that this daemon gives to runs, as slots. The drivers' tools are asked at the start,
 * from time to time, and when somebody needs figures; what they say changes the slots. Nobody waits
 * for a tool that hangs: the daemon starts without an answer, and slots come when there is one. A
 * run keeps its slots, whatever happens to their cards.
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Card, Link } from "../../os/gpus/card.ts";
import type { GpuLocks } from "../../os/gpus/gpu_locks.ts";
import type { GpuOption, Visible } from "../../os/gpus/gpu_option.ts";
import type { GpuReading, GpuTools } from "../../os/gpus/gpu_tools.ts";
import type { GpuSlot } from "../../registry/gpus/gpu_rows.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Registry } from "../../registry/registry.ts";
import { processesOf, readProcesses } from "../../os/processes/usage.ts";
import type { Sharers } from "./foreign_use.ts";
import { shareVariables } from "./sharing.ts";
import { CardErrors } from "./card_errors.ts";
import { FreeCheck, type FreeSlots } from "./free_check.ts";
import type { FreeRule } from "../../os/gpus/free_memory.ts";
import { chosen, type Device, gpuVariables, slotsFor, textOf, told } from "./devices.ts";

/** What the start waits for a first answer. */
const START_MS = { auto: 3000, told: 1000 };
const EVERY_MS = 60_000;
/**
 * After an answer that lacks something, the next is asked for sooner, and then less and less soon.
 */
const SOON_MS = 2000;
const WITHOUT_TOOL_MS = 300_000;
/** A driver that has just been asked is not asked again. */
const FRESH_MS = 2000;

export interface GpuPoolOptions {
  option: GpuOption;
  visible: Visible;
  tools: Pick<GpuTools, "read" | "processes" | "xids">;
  /** Against the host's other daemons; undefined: cards are not locked. */
  locks?: GpuLocks | undefined;
  /** When a card counts as free; undefined: always. */
  free?: FreeRule | undefined;
  log: Logger;
}

type Slots = Pick<Registry, "gpus" | "appendEvent" | "get">;

export class GpuPool {
  readonly #options: GpuPoolOptions;
  readonly #check: FreeCheck | undefined;
  readonly #closing = new AbortController();
  #slots = new Map<number, Device>();
  /** Devices that were there: a run that holds one may be about to start. */
  readonly #lost = new Map<number, Device>();
  #reading: GpuReading | undefined;
  #inProgress: Promise<GpuReading> | undefined;
  #registry: Slots | undefined;
  #onChanged = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watching = false;
  #failures = 0;
  #told = "";
  /** Slots whose cards this daemon has locked, with their UUIDs. */
  readonly #locked = new Map<number, string>();
  #lockProblem = "";
  readonly #errors: CardErrors;
  #noting: Promise<void> = Promise.resolve();

  /** @param devices what is known before a tool has answered */
  constructor(
    options: GpuPoolOptions,
    devices: readonly Device[] = told(options.option, options.visible),
  ) {
    this.#options = options;
    this.#slots = slotsFor(devices, []);
    this.#check = options.free === undefined
      ? undefined
      : new FreeCheck(options.free, this, options.tools);
    this.#errors = new CardErrors(options.tools, options.log);
  }

  /**
   * Asks for the first time; returns when there is an answer, or when the start cannot wait any
   * longer.
   */
  async begin(): Promise<void> {
    if (this.#unasked) return;
    const limit = this.#options.option.type === "auto" ? START_MS.auto : START_MS.told;
    if (await this.readWithin(limit) !== undefined) return;
    const { type } = this.#options.option;
    this.#options.log.warn(
      { seconds: limit / 1000 },
      "the GPU driver's tool has not answered yet; the daemon starts " +
        (type === "auto"
          ? "without GPU slots, which are added when it answers"
          : "with the slots of --gpus"),
    );
  }

  /** Enters the slots, which then follow what the tools say. @throws what the registry throws */
  enter(registry: Slots, onChanged: () => void): void {
    this.#onChanged = onChanged;
    const held = registry.gpus.devices().filter(isHeld);
    const slots = slotsFor(
      [...this.#slots.values()],
      held.map(({ slot, uuid }) => ({ slot, uuid, held: true })),
    );
    registry.gpus.set([...slots.keys()], uuidsOf(slots));
    this.#slots = slots;
    this.#registry = registry;
  }

  /** From now on the tools are asked from time to time. */
  watch(): void {
    this.#watching = !this.#unasked;
    if (this.#inProgress === undefined) this.#askAgain();
  }

  /** Ends a tool in progress; one that cannot be ended is given up after two seconds. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#closing.abort();
    await this.#inProgress;
    await this.#noting;
    this.#options.locks?.[Symbol.dispose]();
  }

  /** Slots that are offered, whoever holds them. */
  get size(): number {
    return this.#slots.size;
  }

  /** How many a run may ask for: any number while it is not known. */
  get mostRequested(): number {
    const isKnown = this.#unasked || this.#reading !== undefined ||
      this.#options.option.type !== "auto";
    return isKnown ? this.#slots.size : Infinity;
  }

  /** MiB of the largest card; any number while it is not known of all. */
  get mostMemoryMb(): number {
    const memory = [...this.#slots.values()].map(({ memoryMb }) => memoryMb ?? Infinity);
    return memory.length === 0 ? Infinity : Math.max(...memory);
  }

  /** Why there are fewer than one would expect; "" if nothing is wrong. */
  get problem(): string {
    return this.#told;
  }

  deviceOf(slot: number): Device | undefined {
    return this.#slots.get(slot);
  }

  /** The newest answer of the tools. */
  get newest(): GpuReading | undefined {
    return this.#reading;
  }

  processes(): ReturnType<GpuTools["processes"]> {
    return this.#options.tools.processes(this.#closing.signal);
  }

  /** Slots were told by `--gpus`: they are believed if no tool works. */
  get isTold(): boolean {
    return this.#options.option.type !== "auto";
  }

  /**
   * Which of these slots, which no run has, nobody else uses either.
   * @param wanting stands for the runs that want them @param then called if the tools must be asked
   * first
   */
  reallyFree(free: readonly number[], wanting: string, then: () => void): FreeSlots {
    if (this.#check === undefined || this.#unasked || this.#reading?.tool === false) {
      const usable = free.filter((slot) => !this.isLockedByOther(slot));
      return { usable, used: [], asking: false };
    }
    return this.#check.of(free, wanting, then);
  }

  /**
   * Locks the slots' cards against the host's other daemons. @returns false if one of them has
   * given a card to a run since the last look; what was locked then goes with the next `keepLocks`
   */
  lock(slots: readonly number[]): boolean {
    const isMine = slots.every((slot) => this.#lock(slot));
    if (!isMine) this.#check?.forget();
    return isMine;
  }

  #lock(slot: number): boolean {
    const { locks } = this.#options;
    const uuid = this.#slots.get(slot)?.uuid ?? "";
    if (locks === undefined || uuid === "" || this.#locked.has(slot)) return true;
    if (!locks.lock(uuid)) return false;
    this.#locked.set(slot, uuid);
    return true;
  }

  /** Unlocks the cards that no run has, and locks those of an earlier daemon's runs. */
  keepLocks(held: readonly number[]): void {
    for (const [slot, uuid] of this.#locked) {
      if (held.includes(slot)) continue;
      this.#options.locks!.unlock(uuid);
      this.#locked.delete(slot);
    }
    for (const slot of held) this.#lock(slot);
  }

  /** Of these slots those that other daemons of the host have given to runs, with a pid. */
  async lockedByOthers(slots: readonly number[]): Promise<Map<number, number | undefined>> {
    const { locks } = this.#options;
    if (locks === undefined) return new Map();
    const slotOf = new Map(slots.flatMap((slot) => {
      const uuid = this.#slots.get(slot)?.uuid ?? "";
      return uuid === "" ? [] : [[uuid, slot] as const];
    }));
    const taken = await locks.lockedByOthers([...slotOf.keys()]);
    return new Map([...taken].map(([uuid, pid]) => [slotOf.get(uuid)!, pid]));
  }

  isLockedByOther(slot: number): boolean {
    return this.#options.locks?.isLockedByOther(this.#slots.get(slot)?.uuid ?? "") === true;
  }

  /** How close two slots' cards are; 0: not known. */
  closeness(a: number, b: number): number {
    return this.linkOf(a, b)?.closeness ?? 0;
  }

  linkOf(a: number, b: number): Link | undefined {
    const [from, to] = [this.#slots.get(a), this.#slots.get(b)];
    if (from === undefined || to === undefined || from.vendor !== to.vendor) return undefined;
    return this.#reading?.links.find(({ vendor, cards: [one, other] }) =>
      vendor === from.vendor &&
      ((one === from.card && other === to.card) || (one === to.card && other === from.card))
    );
  }

  /** What is wrong with a slot's card, as text; "": nothing that is known. */
  healthOf(slot: number): string {
    const card = this.#reading && this.cardOf(slot, this.#reading);
    return this.#errors.healthOf(this.#slots.get(slot)?.uuid ?? "", card);
  }

  /** Errors of a slot's card since this daemon's start. */
  errorsOf(slot: number): number {
    return this.#errors.countOf((this.#slots.get(slot) ?? this.#lost.get(slot))?.uuid ?? "");
  }

  /** By which a worker sees its slots and no others, and knows its share of them. */
  variablesOf(
    { runId, gpuSlots, gpuShare }: Pick<RunRow, "runId" | "gpuSlots" | "gpuShare">,
  ): Record<string, string> {
    const hasAmd = [...this.#slots.values()].some(({ vendor }) => vendor === "amd");
    const deviceOf = (slot: number) => this.#slots.get(slot) ?? this.#lost.get(slot);
    const shares = this.#registry?.gpus.sharesOf(runId) ?? [];
    return {
      ...gpuVariables(gpuSlots, deviceOf, hasAmd),
      ...shareVariables(shares, shares.map(({ slot }) => deviceOf(slot)), gpuShare !== null),
    };
  }

  /** Of each of these slots that runs share: their processes, and what they have declared. */
  async sharersOf(slots: readonly number[]): Promise<Map<number, Sharers>> {
    const registry = this.#registry;
    const shared = (registry?.gpus.devices() ?? []).filter(({ slot, shares }) =>
      shares.length > 0 && slots.includes(slot)
    );
    if (registry === undefined || shared.length === 0) return new Map();
    const all = await readProcesses();
    return new Map(shared.map(({ slot, shares }) => {
      const workers = shares.flatMap(({ runId }) => registry.get(runId)?.worker?.pid ?? []);
      const pids = new Set(workers.flatMap((pid) => processesOf(pid, all)).map(({ pid }) => pid));
      return [slot, {
        pids,
        declaredMb: shares.reduce((sum, { memoryMb }) => sum + (memoryMb ?? 0), 0),
      }];
    }));
  }

  /** The newest figures, not older than this. */
  async read(freshMs = FRESH_MS): Promise<GpuReading> {
    const newest = this.#reading;
    if (newest !== undefined && performance.now() - newest.at < freshMs) return newest;
    return await (this.#inProgress ??= this.#ask().finally(() => {
      this.#inProgress = undefined;
      this.#askAgain();
    }));
  }

  /** The same; undefined if there is no answer within this time. */
  async readWithin(limitMs: number): Promise<GpuReading | undefined> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<undefined>((resolve) =>
      timer = setTimeout(() => resolve(undefined), limitMs)
    );
    try {
      return await Promise.race([this.read(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The card of a slot in a reading. */
  cardOf(slot: number, { cards }: GpuReading): Card | undefined {
    const device = this.#slots.get(slot);
    if (device === undefined || device.instance !== null) return undefined;
    return cards.find(({ uuid, vendor, index }) =>
      device.uuid === "" ? vendor === device.vendor && index === device.card : uuid === device.uuid
    );
  }

  /** `--gpus 0`: no tool is asked. */
  get #unasked(): boolean {
    const { option } = this.#options;
    return option.type === "count" && option.count === 0;
  }

  async #ask(): Promise<GpuReading> {
    const reading = await this.#options.tools.read(this.#closing.signal);
    if (this.#closing.signal.aborted) return reading;
    this.#reading = reading;
    try {
      this.#apply(reading);
      this.#noting = this.#noting.then(() => this.#noteErrors(reading));
    } catch (error) {
      // The slots stay as they were until the next answer.
      this.#options.log.warn(
        { error: messageOf(error) },
        "cannot enter the host's GPU slots; trying again",
      );
      this.#failures++;
    }
    await this.#lookAtLocks();
    return reading;
  }

  async #lookAtLocks(): Promise<void> {
    const { locks, log } = this.#options;
    if (locks === undefined) return;
    const uuids = [...this.#slots.values()].map(({ uuid }) => uuid).filter((uuid) => uuid !== "");
    if (uuids.length === 0) return;
    await locks.look(uuids);
    if (locks.problem !== this.#lockProblem && locks.problem !== "") {
      log.warn(
        { problem: locks.problem },
        "cannot lock the host's GPUs; another daemon of this host may give out the same card",
      );
    }
    this.#lockProblem = locks.problem;
  }

  /** Errors of cards are events of the runs that have them. */
  async #noteErrors(reading: GpuReading): Promise<void> {
    const { log } = this.#options;
    const found = await this.#errors.look(reading, this.#closing.signal);
    const registry = this.#registry;
    if (registry === undefined || this.#closing.signal.aborted) return;
    try {
      for (const { uuid, data } of found) {
        for (const its of registry.gpus.devices().filter((slot) => slot.uuid === uuid)) {
          const { slot } = its;
          const device = this.#slots.get(slot) ?? this.#lost.get(slot);
          const gpu = device === undefined ? `gpu ${slot}` : textOf(slot, device);
          const runs = its.runId === null ? its.shares.map(({ runId }) => runId) : [its.runId];
          log.warn(
            { slot, gpu, run_id: runs.join(", ") || null, ...data },
            "a GPU reports an error",
          );
          for (const runId of runs.filter((runId) => registry.get(runId) !== undefined)) {
            registry.appendEvent(runId, "gpu_error", { slot, gpu, ...data });
          }
        }
      }
    } catch (error) {
      log.warn({ error: messageOf(error) }, "cannot enter the errors of GPUs as events of runs");
    }
  }

  #askAgain(): void {
    clearTimeout(this.#timer);
    if (!this.#watching || this.#closing.signal.aborted) return;
    const last = this.#reading;
    const ms = last !== undefined && !last.tool
      ? WITHOUT_TOOL_MS
      : Math.min(EVERY_MS, this.#failures === 0 ? EVERY_MS : SOON_MS * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => void this.read(), ms);
  }

  #apply(reading: GpuReading): void {
    const { option, visible, log } = this.#options;
    const failed = reading.cards.length === 0 && !reading.complete;
    const choice = failed || !reading.tool
      ? { devices: undefined, problems: [] }
      : chosen(reading.cards, option, visible);
    const problem = [reading.problem, ...choice.problems].filter((text) => text !== "").join("; ");
    this.#failures = problem === "" ? 0 : this.#failures + 1;
    if (problem !== this.#told && problem !== "") {
      log.warn(
        { problem, slots: choice.devices?.length ?? this.#slots.size },
        "not all GPUs can be used",
      );
    }
    this.#told = problem;
    // A tool that fails as a whole says nothing of any card.
    if (choice.devices !== undefined) this.#change(choice.devices);
  }

  #change(devices: readonly Device[]): void {
    const { log } = this.#options;
    const registry = this.#registry;
    const known = (registry?.gpus.devices() ?? []).map((its) => ({
      slot: its.slot,
      uuid: its.uuid,
      held: isHeld(its),
      runs: its.runId === null ? its.shares.map(({ runId }) => runId) : [its.runId],
    }));
    const [before, after] = [this.#slots, slotsFor(devices, known)];
    const same = (slot: number) =>
      before.get(slot)?.uuid === after.get(slot)?.uuid && before.has(slot) === after.has(slot);
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter((slot) => !same(slot));
    if (changed.length > 0) registry?.gpus.set([...after.keys()], uuidsOf(after));
    this.#slots = after;
    if (registry === undefined || changed.length === 0) return;
    for (const slot of changed) {
      const [was, is] = [before.get(slot), after.get(slot)];
      const runs = known.find((its) => its.slot === slot)?.runs ?? [];
      if (is !== undefined && was === undefined) {
        log.info(
          { slot, gpu: textOf(slot, is), run_id: runs.join(", ") || null },
          "a GPU has come",
        );
      }
      if (is === undefined && was !== undefined) {
        this.#lost.set(slot, was);
        log.warn(
          { slot, gpu: textOf(slot, was), run_id: runs.join(", ") || null, problem: this.#told },
          "a GPU is lost",
        );
      }
      if (is !== undefined && was !== undefined) continue;
      const why = is === undefined && this.#told !== "" ? { why: this.#told } : {};
      for (const runId of runs.filter((runId) => registry.get(runId) !== undefined)) {
        const data = { slot, gpu: textOf(slot, (is ?? was)!), ...why };
        registry.appendEvent(runId, is === undefined ? "gpu_lost" : "gpu_back", data);
      }
    }
    this.#onChanged();
  }
}

const isHeld = ({ runId, shares }: GpuSlot) => runId !== null || shares.length > 0;

function uuidsOf(slots: ReadonlyMap<number, Device>): Map<number, string> {
  return new Map([...slots].map(([slot, { uuid }]) => [slot, uuid]));
}
