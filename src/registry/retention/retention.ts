/** Which ended runs go: by number, age and size. Pure; used by `mosaic prune` and by the daemon's own policies. */
import { MosaicError } from "../../base/errors.ts";
import { isEnded, type RunState } from "../lifecycle/lifecycle.ts";

/** At least one of them is given. */
export interface RetentionPolicy {
  /** The newest so many ended runs are kept, whatever else is said. Alone: all other ended runs go. */
  keepLast?: number;
  /** Runs that ended longer ago than this many milliseconds go. */
  olderThanMs?: number;
  /** Oldest runs go until the files and the telemetry of those that stay take no more than this many bytes. */
  maxBytes?: number;
}

export interface PrunableRun {
  runId: string;
  state: RunState;
  createdAt: number;
  finishedAt: number | null;
  /** What cannot be read of its row. */
  damaged: readonly string[];
  /** Of its files and its telemetry; 0 where only number and age matter. */
  bytes: number;
}

export interface Chosen<R extends PrunableRun> {
  run: R;
  because: "number" | "age" | "size";
}

/** When a run ended; one whose end is not on record counts from its submission. */
function endOf(run: PrunableRun): number {
  return run.finishedAt ?? run.createdAt;
}

/**
 * The runs to delete, oldest first. A live run is never among them, nor one whose row is damaged (what it says of its end
 * is not to be trusted), and neither are the newest `keepLast` ended ones. Those that are never chosen count towards
 * `maxBytes`, so that limit may not be reached.
 *
 * @throws MosaicError `invalid_argument` for a policy that says nothing or something negative.
 */
export function chooseRunsToPrune<R extends PrunableRun>(
  runs: readonly R[],
  policy: RetentionPolicy,
  now: number,
): Chosen<R>[] {
  checkPolicy(policy);
  const newestFirst = runs.filter((run) => isEnded(run.state) && run.damaged.length === 0).sort((a, b) =>
    endOf(b) - endOf(a) || (a.runId < b.runId ? 1 : -1)
  );
  const oldestFirst = newestFirst.slice(policy.keepLast ?? 0).reverse();
  const byNumberAlone = policy.olderThanMs === undefined && policy.maxBytes === undefined;
  let bytes = runs.reduce((sum, run) => sum + run.bytes, 0);
  const chosen: Chosen<R>[] = [];
  for (const run of oldestFirst) {
    const tooOld = policy.olderThanMs !== undefined && now - endOf(run) > policy.olderThanMs;
    const tooMuch = policy.maxBytes !== undefined && bytes > policy.maxBytes;
    if (!byNumberAlone && !tooOld && !tooMuch) continue;
    bytes -= run.bytes;
    chosen.push({ run, because: byNumberAlone ? "number" : tooOld ? "age" : "size" });
  }
  return chosen;
}

function checkPolicy(policy: RetentionPolicy): void {
  const given = Object.entries(policy).filter(([, value]) => value !== undefined);
  if (given.length === 0) {
    throw new MosaicError("invalid_argument", "no retention policy was given", {
      hint: "Say how many runs to keep, from which age on they go, or how much space they may take.",
    });
  }
  for (const [name, value] of given) {
    if (!Number.isFinite(value) || value < 0 || (name === "keepLast" && !Number.isInteger(value))) {
      throw new MosaicError("invalid_argument", `${name} must be a number that is not negative; it is ${value}`);
    }
  }
}
