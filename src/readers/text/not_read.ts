/**
 * The event about what a program produced and mosaic did not take: one for each file and kind, with
 * a count.
 */
import type { Unread } from "./line_fields.ts";

export const NOT_READ = "not_read";

export interface NotRead {
  /** A file's path, `stdout` or `stderr`. */
  source: string;
  /** What was not taken, as a noun: "lines with numbers in no known form". */
  what: string;
  count: number;
  /** What would change it. */
  remedy: string;
  /** The first such line. */
  line?: string;
}

export const LINES_NOT_READ: { readonly [why in Unread]: Pick<NotRead, "what" | "remedy"> } = {
  form: {
    what: "lines with numbers in no known form",
    remedy: "print `step=10 loss=0.3`, or write a file of a tracker (docs/reference/formats.md)",
  },
  step: {
    what: "lines whose step is no whole number",
    remedy: "print the step as a whole number: `step=10`",
  },
  value: {
    what: "values with an unknown unit",
    remedy: "print numbers, or units such as %, s, ms, it/s, MB",
  },
};
const MAX_LINE = 200;

/** Counts the lines that seem to have numbers of a training and gave none, by the reason. */
export class UnreadLines {
  readonly #counts = new Map<Unread, { count: number; line: string }>();

  add(why: Unread, line: () => string): void {
    const known = this.#counts.get(why);
    if (known === undefined) {
      this.#counts.set(why, { count: 1, line: line().trim().slice(0, MAX_LINE).toWellFormed() });
    } else known.count++;
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  of(source: string): NotRead[] {
    return [...this.#counts].map(([why, one]) => ({ source, ...LINES_NOT_READ[why], ...one }));
  }
}
