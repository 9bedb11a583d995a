/**
 * Chooses ended runs to delete, by count, age and size. Pure; used by `mosaic prune` and the
 * daemon's retention.
 */
import { MosaicError } from "../../base/errors.ts";
import { isEnded, type RunState } from "../lifecycle/lifecycle.ts";

/** How long a deleted run stays in the trash, unless the daemon is told otherwise. */
export const KEEP_DELETED_MS = 7 * 86_400_000;

/** At least one of them is given. */
export interface RetentionPolicy {
  /** Delete runs that are in the trash for this many milliseconds. */
  keepDeletedMs?: number;
  /** Always keep the newest n ended runs. Alone: delete all other ended runs. */
  keepLast?: number;
  /** Delete runs that ended more than this many milliseconds ago. */
  olderThanMs?: number;
  /**
   * Delete the oldest runs until the files and telemetry of the rest use at most this many bytes.
   */
  maxBytes?: number;
  /** Delete the oldest runs until the telemetry database uses at most this many bytes. */
  maxTelemetryBytes?: number;
}

export interface PrunableRun {
  runId: string;
  state: RunState;
  createdAt: number;
  finishedAt: number | null;
  /** When it was put into the trash; null: it is not there. */
  deletedAt: number | null;
  /** Unreadable fields of its row. */
  damaged: readonly string[];
  /** Of its files and its telemetry; 0 if only number and age matter. */
  bytes: number;
}

export interface Chosen<R extends PrunableRun> {
  run: R;
  because: "number" | "age" | "size" | "trash";
}

/** When a run ended; if that is not recorded, when it was submitted. */
function endOf(run: PrunableRun): number {
  return run.finishedAt ?? run.createdAt;
}

/**
 * The runs to delete: those in the trash before all others, and then oldest first. Never chosen:
 * live runs, runs with a damaged row (their end cannot be trusted), and the newest `keepLast` ended
 * ones. They count towards `maxBytes`, so that limit may not be reached.
 * @throws MosaicError `invalid_argument` for an empty policy or a negative value.
 */
export function chooseRunsToPrune<R extends PrunableRun>(
  runs: readonly R[],
  policy: RetentionPolicy,
  now: number,
): Chosen<R>[] {
  checkPolicy(policy);
  const { keepLast, olderThanMs, keepDeletedMs, maxBytes: most, maxTelemetryBytes } = policy;
  const byNumberAlone = keepLast !== undefined &&
    [olderThanMs, most, maxTelemetryBytes].every((limit) => limit === undefined);
  let bytes = runs.reduce((sum, run) => sum + run.bytes, 0);
  const chosen: Chosen<R>[] = [];
  for (const run of deletableRuns(runs, policy)) {
    const tooMuch = most !== undefined && bytes > most;
    let because: Chosen<R>["because"] | undefined = tooMuch ? "size" : undefined;
    if (run.deletedAt !== null) {
      if (keepDeletedMs !== undefined && now - run.deletedAt >= keepDeletedMs) because = "trash";
    } else if (byNumberAlone) because = "number";
    else if (olderThanMs !== undefined && now - endOf(run) > olderThanMs) because = "age";
    if (because === undefined) continue;
    bytes -= run.bytes;
    chosen.push({ run, because });
  }
  return chosen;
}

/**
 * Those that the policy may delete: the trash, longest there first, then the others, oldest first.
 */
export function deletableRuns<R extends PrunableRun>(
  runs: readonly R[],
  { keepLast = 0 }: RetentionPolicy,
): R[] {
  const deletable = runs.filter((run) => isEnded(run.state) && run.damaged.length === 0);
  const newestFirst = deletable.filter(({ deletedAt }) => deletedAt === null).sort((a, b) =>
    endOf(b) - endOf(a) || (a.runId < b.runId ? 1 : -1)
  );
  const trash = deletable.filter(({ deletedAt }) => deletedAt !== null).sort((a, b) =>
    a.deletedAt! - b.deletedAt!
  );
  return [...trash, ...newestFirst.slice(keepLast).reverse()];
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
      throw new MosaicError(
        "invalid_argument",
        `${name} must be a number that is not negative; it is ${value}`,
      );
    }
  }
}
