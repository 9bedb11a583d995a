/**
 * What the owners of runs use and may use: the registry's side of shares.ts and of
 * `--max-gpus-per-user`, `--max-runs-per-user`.
 */
import { RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { GpuSlot } from "../../registry/gpus/gpu_rows.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { type ShareWish, wishOf } from "../gpus/sharing.ts";
import { type Ranked, ranks, type Shares, unitsOf, Uses } from "./shares.ts";

/** Use that is older than this many half-lives is less than a thousandth. */
const HALF_LIVES = 10;

/** The tag that all runs of a sweep have (src/sweeps/trial_config.ts); "": none. */
export function sweepOf(tags: readonly string[]): string {
  return tags.find((tag) => tag.startsWith("sweep:")) ?? "";
}

export interface UsersOptions {
  registry: Registry;
  /** Undefined: runs of one priority start in order of submission, whoever owns them. */
  shares?: Shares | undefined;
  /** GPU slots of one owner at a time; undefined: no limit. */
  maxGpusPerUser?: number | undefined;
  /** Running runs of one owner; undefined: no limit. */
  maxRunsPerUser?: number | undefined;
  /** MiB of a card, of which a run declares a part; Infinity: not known. */
  cardMemoryMb?: () => number;
}

export class Users {
  readonly #options: UsersOptions;
  readonly #uses: Uses | undefined;

  constructor(options: UsersOptions) {
    this.#options = options;
    this.#uses = options.shares && new Uses(options.shares.halfLifeMs);
  }

  get maxGpus(): number {
    return this.#options.maxGpusPerUser ?? Infinity;
  }

  get maxRuns(): number {
    return this.#options.maxRunsPerUser ?? Infinity;
  }

  /** Reads what was used before this daemon. */
  start(): void {
    const { registry, shares } = this.#options;
    if (shares === undefined) return;
    const since = Date.now() - HALF_LIVES * shares.halfLifeMs;
    for (const { owner, ...ran } of registry.attemptsSince(since)) {
      // Only of those that run the sweep matters.
      const sweep = ran.to === null ? sweepOf(registry.get(ran.runId)?.tags ?? []) : "";
      this.#uses!.add({ ...ran, owner: this.ownerOf({ owner }), sweep, units: this.#unitsOf(ran) });
    }
  }

  /**
   * A caller without a name (no token, a connection whose user is unknown) is one of all such
   * callers.
   */
  ownerOf({ owner }: Pick<RunRow, "owner">): string {
    return owner || "anybody";
  }

  /** A run has begun or ceased to run on this host. */
  changed(row: RunRow): void {
    const { runId, state, startedAt, gpuSlots, placement } = row;
    if (this.#uses === undefined || placement !== null) return;
    const runs = RUNNING_STATES.includes(state);
    if (!runs) this.#uses.ended(runId, Date.now());
    else if (!this.#uses.isRunning(runId)) {
      const units = this.#unitsOf({ ...row, gpusRequested: gpuSlots.length });
      this.#uses.add({
        runId,
        owner: this.ownerOf(row),
        sweep: sweepOf(row.tags),
        units,
        from: startedAt ?? Date.now(),
        to: null,
      });
    }
  }

  /** Ranks by fair shares; empty without them. */
  ranks(
    waiting: readonly (Ranked & { share?: ShareWish | undefined })[],
  ): ReadonlyMap<string, number> {
    const { shares } = this.#options;
    if (shares === undefined) return new Map();
    const ranked = waiting.map((run) => ({ ...run, part: this.#partOf(run.share) }));
    return ranks(ranked, this.#uses!.at(Date.now()), shares, this.#uses!.runningBySweep());
  }

  #unitsOf(run: Pick<RunRow, "gpusRequested" | "gpuShare" | "gpuMemoryMb">): number {
    return unitsOf({ ...run, part: this.#partOf(wishOf(run)) });
  }

  #partOf(wish: ShareWish | undefined): number {
    if (wish === undefined) return 1;
    if ("part" in wish) return wish.part;
    const cardMb = this.#options.cardMemoryMb?.() ?? Infinity;
    return cardMb === Infinity ? 1 : Math.min(1, wish.memoryMb / cardMb);
  }

  /** Runs on this host that each owner has. @param starting those about to start */
  runsOf(starting: Iterable<string>): Map<string, number> {
    const counts = new Map<string, number>();
    if (this.maxRuns === Infinity) return counts;
    const { registry } = this.#options;
    const add = (owner: string, count: number) =>
      counts.set(owner, (counts.get(owner) ?? 0) + count);
    for (const { owner, count } of registry.runningByOwner()) add(this.ownerOf({ owner }), count);
    for (const runId of starting) {
      const row = registry.get(runId);
      if (row?.state === "INIT") add(this.ownerOf(row), 1);
    }
    return counts;
  }

  /** GPU slots that each owner has; of shared cards, parts. */
  gpusOf(slots: readonly GpuSlot[]): Map<string, number> {
    const counts = new Map<string, number>();
    if (this.maxGpus === Infinity) return counts;
    for (const { runId: holder, shares } of slots) {
      for (const { runId, part } of holder === null ? shares : [{ runId: holder, part: 1 }]) {
        const row = this.#options.registry.get(runId);
        if (row !== undefined) {
          counts.set(this.ownerOf(row), (counts.get(this.ownerOf(row)) ?? 0) + part);
        }
      }
    }
    return counts;
  }
}
