/** Chooses ended runs to delete, by count, age and size. Pure; used by `mosaic prune` and the daemon's retention. */
import { MosaicError } from "../../base/errors.ts";
import { isEnded, type RunState } from "../lifecycle/lifecycle.ts";

/** At least one of them is given. */
export interface RetentionPolicy {
  /** Always keep the newest n ended runs. Alone: delete all other ended runs. */
  keepLast?: number;
  /** Delete runs that ended more than this many milliseconds ago. */
  olderThanMs?: number;
  /** Delete the oldest runs until the files and telemetry of the rest use at most this many bytes. */
  maxBytes?: number;
  /** Delete the oldest runs until the telemetry database uses at most this many bytes. */
  maxTelemetryBytes?: number;
}

export interface PrunableRun {
  runId: string;
  state: RunState;
  createdAt: number;
  finishedAt: number | null;
  /** Unreadable fields of its row. */
  damaged: readonly string[];
  /** Of its files and its telemetry; 0 if only number and age matter. */
  bytes: number;
}

export interface Chosen<R extends PrunableRun> {
  run: R;
  because: "number" | "age" | "size";
}

/** When a run ended; if that is not recorded, when it was submitted. */
function endOf(run: PrunableRun): number {
  return run.finishedAt ?? run.createdAt;
}

/**
 * The runs to delete, oldest first. Never chosen: live runs, runs with a damaged row (their end cannot be trusted), and the
 * newest `keepLast` ended ones. They count towards `maxBytes`, so that limit may not be reached.
 * @throws MosaicError `invalid_argument` for an empty policy or a negative value.
 */
export function chooseRunsToPrune<R extends PrunableRun>(
  runs: readonly R[],
  policy: RetentionPolicy,
  now: number,
): Chosen<R>[] {
  checkPolicy(policy);
  const { olderThanMs, maxBytes: most, maxTelemetryBytes } = policy;
  const byNumberAlone = [olderThanMs, most, maxTelemetryBytes].every((limit) => limit === undefined);
  let bytes = runs.reduce((sum, run) => sum + run.bytes, 0);
  const chosen: Chosen<R>[] = [];
  for (const run of deletableRuns(runs, policy)) {
    const tooOld = policy.olderThanMs !== undefined && now - endOf(run) > policy.olderThanMs;
    const tooMuch = policy.maxBytes !== undefined && bytes > policy.maxBytes;
    if (!byNumberAlone && !tooOld && !tooMuch) continue;
    bytes -= run.bytes;
    chosen.push({ run, because: byNumberAlone ? "number" : tooOld ? "age" : "size" });
  }
  return chosen;
}

/** Those that the policy may delete, oldest first. */
export function deletableRuns<R extends PrunableRun>(runs: readonly R[], { keepLast = 0 }: RetentionPolicy): R[] {
  const newestFirst = runs.filter((run) => isEnded(run.state) && run.damaged.length === 0).sort((a, b) =>
    endOf(b) - endOf(a) || (a.runId < b.runId ? 1 : -1)
  );
  return newestFirst.slice(keepLast).reverse();
}

function checkPolicy(policy: RetentionPolicy): void {
  const given = Object.entries(policy).filter(([, value]) => value !== undefined);
  if (given.length === 0) {
    throw new MosaicError("invalid_argument", "no retention policy was given", {
      hint: "Give a number of runs to keep, a maximum age, or a maximum size.",
    });
  }
  for (const [name, value] of given) {
    if (!Number.isFinite(value) || value < 0 || (name === "keepLast" && !Number.isInteger(value))) {
      throw new MosaicError("invalid_argument", `${name} must be a number that is not negative; it is ${value}`);
    }
  }
}
