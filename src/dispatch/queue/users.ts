/** What the owners of runs use and may use: the registry's side of shares.ts and of `--max-gpus-per-user`. */
import { submitterOf } from "../../config/plan.ts";
import { RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { type Ranked, ranks, type Shares, Uses } from "./shares.ts";

/** Use that is older than this many half-lives is less than a thousandth. */
const HALF_LIVES = 10;
/** Owners in memory, by run. */
const KNOWN = 20_000;

export interface UsersOptions {
  registry: Registry;
  /** Undefined: runs of one priority start in order of submission, whoever owns them. */
  shares?: Shares | undefined;
  /** GPU slots of one owner at a time; undefined: no limit. */
  maxGpusPerUser?: number | undefined;
}

export class Users {
  readonly #options: UsersOptions;
  readonly #uses: Uses | undefined;
  readonly #owners = new Map<string, string>();

  constructor(options: UsersOptions) {
    this.#options = options;
    this.#uses = options.shares && new Uses(options.shares.halfLifeMs);
  }

  get maxGpus(): number {
    return this.#options.maxGpusPerUser ?? Infinity;
  }

  /** Reads what was used before this daemon. */
  start(): void {
    const { registry, shares } = this.#options;
    if (shares === undefined) return;
    const since = Date.now() - HALF_LIVES * shares.halfLifeMs;
    for (const { submitter, gpus, ...ran } of registry.attemptsSince(since)) {
      this.#uses!.add({ ...ran, owner: ownerText(submitter), units: Math.max(1, gpus) });
    }
  }

  /** "" where nothing depends on it. */
  ownerOf({ runId, configJson }: Pick<RunRow, "runId" | "configJson">): string {
    if (this.#uses === undefined && this.maxGpus === Infinity) return "";
    const known = this.#owners.get(runId);
    if (known !== undefined) return known;
    if (this.#owners.size > KNOWN) this.#owners.clear();
    const owner = ownerText(submitterOf(configJson));
    this.#owners.set(runId, owner);
    return owner;
  }

  /** A run has begun or ceased to run on this host. */
  changed(row: RunRow): void {
    const { runId, state, startedAt, gpuSlots, placement } = row;
    if (this.#uses === undefined || placement !== null) return;
    const runs = RUNNING_STATES.includes(state);
    if (!runs) this.#uses.ended(runId, Date.now());
    else if (!this.#uses.isRunning(runId)) {
      const units = Math.max(1, gpuSlots.length);
      this.#uses.add({ runId, owner: this.ownerOf(row), units, from: startedAt ?? Date.now(), to: null });
    }
  }

  /** Ranks by fair shares; empty without them. */
  ranks(waiting: readonly Ranked[]): ReadonlyMap<string, number> {
    const { shares } = this.#options;
    return shares === undefined ? new Map() : ranks(waiting, this.#uses!.at(Date.now()), shares);
  }

  /** GPU slots that each owner has. */
  gpusOf(slots: readonly { runId: string | null }[]): Map<string, number> {
    const counts = new Map<string, number>();
    if (this.maxGpus === Infinity) return counts;
    for (const { runId } of slots) {
      const row = runId === null || this.#owners.has(runId) ? undefined : this.#options.registry.get(runId);
      const owner = runId === null ? undefined : this.#owners.get(runId) ?? (row && this.ownerOf(row));
      if (owner !== undefined) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    return counts;
  }
}

/** A caller without a name (no token, a connection whose user is unknown) is one of all such callers. */
function ownerText(submitter: string): string {
  return submitter || "anybody";
}
