/**
 * The fields of `metadata.queue`: what a run waits for, and until when. Pure; docs/how-to/queue.md.
 */
import { parseDuration } from "../base/text/format.ts";

/**
 * How a run must have ended so that those after it may start. `ok`: TERMINATED; `failed`: FAULTED
 * or CANCELLED, with no further attempt due; `any`: ended.
 */
export const AFTER_WHEN = ["ok", "failed", "any"] as const;
export type AfterWhen = typeof AFTER_WHEN[number];
/** What becomes of a run whose predecessor has ended in another way. */
export const AFTER_NEVER = ["wait", "cancel"] as const;
/** Predecessors of one run: each is looked up whenever the run may have become due. */
export const MOST_PREDECESSORS = 100;

/** A time with its zone, or a duration after the submission. */
export const MOMENT =
  /^(\+(\d+(\.\d+)?(ms|s|m|h|d|w))+|\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))$/;

/** Before the name or id of a sweep: it has ended when all its trials have. */
export const SWEEP = "sweep:";

export interface After {
  /**
   * As the config names it: an id, a name, "@last", "sweep:NAME"; in a stored config the id, or
   * "sweep:ID".
   */
  run: string;
  when: AfterWhen;
}

export interface QueuePlan {
  after: readonly After[];
  afterNever: typeof AFTER_NEVER[number];
  /** Unix milliseconds of a run submitted at this time; null: none is set. */
  beginAt: (submittedAt: number) => number | null;
  /** After it the run does not start. */
  deadlineAt: (submittedAt: number) => number | null;
  /** The deadline also ends a run that has started. */
  deadlineStops: boolean;
  /** It gives way to runs of higher priority, and goes on later. */
  preemptible: boolean;
}

/** As the schema has them. */
export interface QueueFields {
  after?: readonly string[] | undefined;
  after_never?: QueuePlan["afterNever"] | undefined;
  begin?: string | undefined;
  deadline?: string | undefined;
  deadline_stops?: boolean | undefined;
  preemptible?: boolean | undefined;
}

export function queuePlan(fields: QueueFields = {}): QueuePlan {
  const { begin, deadline } = fields;
  return {
    after: (fields.after ?? []).map(readAfter),
    afterNever: fields.after_never ?? "wait",
    beginAt: (submittedAt) => begin === undefined ? null : momentAt(begin, submittedAt),
    deadlineAt: (submittedAt) => deadline === undefined ? null : momentAt(deadline, submittedAt),
    deadlineStops: fields.deadline_stops ?? false,
    preemptible: fields.preemptible ?? false,
  };
}

/** "RUN", which means "RUN:ok", or "RUN:WHEN". A name may contain colons. */
export function readAfter(text: string): After {
  const colon = text.lastIndexOf(":");
  const when = AFTER_WHEN.find((one) => one === text.slice(colon + 1));
  return colon < 1 || when === undefined
    ? { run: text, when: "ok" }
    : { run: text.slice(0, colon), when };
}

export function afterText({ run, when }: After): string {
  return `${run}:${when}`;
}

/** The longest duration: later times have no text. */
const MOST_MS = 8000 * 366 * 86_400_000;

/**
 * Unix milliseconds of a text that fits MOMENT; null for a day that no calendar has, and for
 * thousands of years.
 */
export function momentAt(text: string, submittedAt: number): number | null {
  const after = text.startsWith("+") ? parseDuration(text.slice(1))! : 0;
  const at = text.startsWith("+") ? submittedAt + after : Date.parse(text);
  return Number.isNaN(at) || after > MOST_MS ? null : Math.round(at);
}
