/**
 * Commits batches of all runs that arrive within a short time in one transaction. Each is
 * acknowledged after the commit, in order of arrival; CommitPace decides how long they wait for
 * each other.
 */
import type { IngestBatch } from "../../records/ingest_batch.ts";
import type { IngestResult } from "../../records/stored.ts";
import { CommitPace, pagesOf } from "./commit_pace.ts";

export interface WaitingBatch {
  runId: string;
  attempt: number;
  batch: IngestBatch;
}
export type Outcome = { result: IngestResult } | { error: unknown };

interface Entry extends WaitingBatch {
  settle(outcome: Outcome): void;
}

/**
 * A group of this many rows is not enlarged: it occupies the thread as long as one full message
 * does.
 */
const MOST_ROWS = 2048;

export interface GroupCommitOptions {
  /** Stores all in one transaction; returns one outcome for each. */
  commit: (group: WaitingBatch[]) => Outcome[];
  /** Resolves when the next commit may begin; undefined: at once. */
  ready: () => Promise<void> | undefined;
  /** Monotonic, in milliseconds. */
  now: () => number;
  /** The database's page size. */
  pageBytes: number;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #pace: CommitPace;
  #waiting: Entry[] = [];
  #since = 0;
  #bytes = 0;
  #rows = 0;
  #urgent = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** A commit waits until the log is short again. */
  #held = false;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#pace = new CommitPace(options.now(), options.pageBytes);
  }

  /** @param urgent whether a caller waits for this batch */
  add(entry: WaitingBatch, urgent: boolean): Promise<IngestResult> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: Outcome) =>
        "error" in outcome ? reject(outcome.error) : resolve(outcome.result);
      if (this.#waiting.length === 0) this.#since = this.#options.now();
      this.#waiting.push({ ...entry, settle });
      const { from, to, steps, episodes, events } = entry.batch;
      this.#bytes += to - from;
      this.#rows += steps.n + episodes.length + events.length;
      this.#urgent ||= urgent;
      this.#next();
    });
  }

  /** Commits the waiting batches. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting.length === 0) return;
    const group = this.#waiting;
    const bytes = this.#bytes;
    this.#waiting = [];
    this.#bytes = this.#rows = 0;
    this.#urgent = false;
    const outcomes = this.#options.commit(group);
    // First, because what is committed must be acknowledged even if the rest of this function
    // fails.
    group.forEach(({ settle }, i) => settle(outcomes[i]!));
    this.#pace.committed(
      this.#options.now(),
      bytes,
      pagesOfGroup(group.filter((_, i) => !("error" in outcomes[i]!))),
    );
  }

  #next(): void {
    if (this.#held) return;
    const wait = this.#urgent || this.#rows >= MOST_ROWS
      ? 0
      : this.#pace.waitMs(this.#options.now(), this.#since, this.#bytes);
    clearTimeout(this.#timer);
    this.#timer = wait > 0 ? setTimeout(() => this.#begin(), wait) : undefined;
    if (wait === 0) this.#begin();
  }

  #begin(): void {
    const ready = this.#options.ready();
    if (ready === undefined) return this.flush();
    this.#held = true;
    ready.then(() => {
      this.#held = false;
      this.flush();
    });
  }
}

function pagesOfGroup(group: readonly WaitingBatch[]): number {
  const runs = new Map<string, number>();
  for (const { runId, batch } of group) {
    runs.set(runId, Math.max(runs.get(runId) ?? 0, pagesOf(batch)));
  }
  let pages = 0;
  for (const its of runs.values()) pages += its;
  return pages;
}
