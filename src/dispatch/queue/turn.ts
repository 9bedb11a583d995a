/**
 * Whether it is a waiting run's turn by its own wishes (`metadata.queue`): its predecessors have
 * ended as they must, and its time has come. Pure; scheduler.ts then decides by priority and free
 * resources.
 */
import type { After, AfterWhen, QueuePlan } from "../../config/queue_fields.ts";
import { idText, type WaitReason, waitText } from "./wait_reasons.ts";

/** A run or a sweep that others wait for. */
export interface Predecessor {
  /** "sweep:ID" for a sweep. */
  runId: string;
  /** "" if it is not known any more. */
  name: string;
  /**
   * `lives` also while a failed attempt is about to be followed by another; `forgotten`: nobody
   * knows how it ended.
   */
  end: "lives" | "ok" | "not_ok" | "forgotten";
  /** How it ended, as text for people. */
  how: string;
  /** Nothing tells the queue when it ends. */
  polled?: boolean;
}

/** Between two queries of such a predecessor. */
const POLL_MS = 2000;

/** What a run wishes; null where it wishes nothing. Times are Unix milliseconds. */
export interface Wishes {
  after: readonly After[];
  afterNever: QueuePlan["afterNever"];
  beginAt: number | null;
  /** The run does not start after it. */
  deadlineAt: number | null;
}

export type Turn =
  | { t: "due" }
  /**
   * @property until when to look again without another event, Unix milliseconds; null: at an event
   */
  | { t: "held"; why: string; until: number | null }
  /**
   * Its turn never comes: a predecessor has ended otherwise than the run needs, and the run is to
   * end, too; or its deadline has passed.
   */
  | { t: "over"; as: "cancelled" | "failed"; reason: string; hint: string };

/**
 * Reason of a run that is cancelled because of its predecessor; what follows the colon names it.
 */
export const NEVER_SATISFIED = "dependency_never_satisfied";
export const DEADLINE_PASSED = "deadline_passed";

export function turnOf(wishes: Wishes, known: (runId: string) => Predecessor, now: number): Turn {
  const { beginAt, deadlineAt } = wishes;
  if (deadlineAt !== null && deadlineAt <= now) {
    const hint = `It did not start before its deadline, ${
      new Date(deadlineAt).toISOString()
    } (metadata.queue.deadline).`;
    return { t: "over", as: "failed", reason: DEADLINE_PASSED, hint };
  }
  const before = wishes.after.map(({ run, when }) => ({ when, run: known(run) }));
  const never = before.find(({ when, run }) => run.end !== "lives" && !satisfies(run, when));
  if (never !== undefined) {
    const reason: WaitReason = { t: "never", run: never.run, when: never.when };
    if (wishes.afterNever === "wait") {
      return { t: "held", why: waitText(reason), until: deadlineAt };
    }
    return {
      t: "over",
      as: "cancelled",
      reason: `${NEVER_SATISFIED}: ${
        idText(never.run.polled ? never.run : { ...never.run, name: "" })
      } ${never.run.how}`,
      hint: `metadata.queue.after wants it to end ${
        WANTED[never.when]
      }, and after_never is cancel.`,
    };
  }
  const living = before.filter(({ run }) => run.end === "lives");
  if (living.length > 0) {
    const [{ run, when }] = living as [typeof living[0], ...typeof living];
    const polled = living.some((one) => one.run.polled === true) ? now + POLL_MS : Infinity;
    const until = Math.min(polled, deadlineAt ?? Infinity);
    const why = waitText({ t: "after", run, when, more: living.length - 1 });
    return { t: "held", why, until: until === Infinity ? null : until };
  }
  if (beginAt === null || beginAt <= now) return { t: "due" };
  return {
    t: "held",
    why: waitText({ t: "begin", at: beginAt }),
    until: Math.min(beginAt, deadlineAt ?? Infinity),
  };
}

export const WANTED: Record<AfterWhen, string> = {
  ok: "well",
  failed: "without success",
  any: "in any way",
};

function satisfies({ end }: Predecessor, when: AfterWhen): boolean {
  switch (when) {
    case "ok":
      return end === "ok";
    case "failed":
      return end === "not_ok";
    case "any":
      return true;
  }
}
