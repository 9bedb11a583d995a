/**
 * The placements of which an engine may have a job: what is known of each, and its row in the
 * registry.
 */
import type { Registry } from "../../../registry/registry.ts";
import type { Placement } from "../../../registry/row_types.ts";
import type { Launcher } from "../engine/launcher.ts";
import type { Job, Stage } from "./placement_state.ts";

export interface LivePlacement {
  /** As stored in the registry. */
  placement: Placement;
  readonly launcher: Launcher;
  stage: Stage;
  job: Job;
  /** Since when, and in how many answers, the engine has not listed the job. */
  missed: { answers: number; since: number };
  /** How often in a row the engine has not accepted the job, and when it is asked again. */
  refused: { times: number; until: number };
  /** Since when the job's end is proven, without a break; undefined: it is not. */
  provenSince: number | undefined;
  /** Its end was in doubt. */
  doubted: boolean;
  /** How many answers have said that the job runs. */
  ran: number;
  stopRequestedAt: number;
  accountQueriedAt: number;
}

interface Attempt {
  runId: string;
  attempt: number;
}

export class LivePlacements {
  readonly #registry: Registry;
  readonly #clock: () => number;
  readonly #live = new Map<string, LivePlacement>();

  constructor(registry: Registry, clock: () => number) {
    this.#registry = registry;
    this.#clock = clock;
  }

  of(attempt: Attempt): LivePlacement | undefined {
    return this.#live.get(keyOf(attempt));
  }

  has(live: LivePlacement): boolean {
    return this.of(live.placement) === live;
  }

  all(): LivePlacement[] {
    return [...this.#live.values()];
  }

  /** @param placement must be in the registry */
  add(placement: Placement, launcher: Launcher, stage: Stage): void {
    this.#live.set(keyOf(placement), {
      placement,
      launcher,
      stage,
      job: { t: "unknown" },
      missed: { answers: 0, since: this.#clock() },
      refused: { times: 0, until: -Infinity },
      provenSince: undefined,
      doubted: false,
      ran: 0,
      stopRequestedAt: -Infinity,
      accountQueriedAt: -Infinity,
    });
  }

  /** Stores the change. */
  note(live: LivePlacement, change: Partial<Placement>): void {
    const placement = { ...live.placement, ...change };
    if (JSON.stringify(placement) === JSON.stringify(live.placement)) return;
    if (this.#registry.get(placement.runId) !== undefined) this.#registry.putPlacement(placement);
    // What could not be written is not taken for written: the next round writes it.
    live.placement = placement;
  }

  /** Its engine has no job of it, or none that matters. */
  end(live: LivePlacement): void {
    this.note(live, { phase: "ended", waitingFor: "" });
    this.#live.delete(keyOf(live.placement));
  }
}

function keyOf({ runId, attempt }: Attempt): string {
  return `${runId}/${attempt}`;
}
