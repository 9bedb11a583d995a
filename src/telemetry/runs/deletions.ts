/**
 * Removes a run's telemetry in chunks of a few milliseconds, so that the daemon can do other work.
 * The run's id is released first (its row becomes a tombstone), so a run of the same id may start
 * at once; an interrupted deletion continues at the next start.
 */
import type { DatabaseSync } from "node:sqlite";
import { yieldToOthers } from "../../base/time/sleep.ts";

/** Rows removed in one transaction; large rows have many pages each. */
const ROWS_PER_CHUNK = 1000;
const WIDE_ROWS_PER_CHUNK = 20;
/** Free pages returned to the file system at a time. */
const PAGES_PER_CHUNK = 256;

const BLOCKS_PER_CHUNK = 50;

const TABLES = ["steps", "step_blocks", "metrics", "episodes", "worker_events"] as const;
const SMALL_TABLES = [
  "parameters",
  "series_starts",
  "series",
  "sources",
  "journal_positions",
  "source_cursors",
] as const;

export class Deletions {
  #closed = false;

  constructor(private readonly db: DatabaseSync, private readonly wrote: (bytes: number) => void) {}

  /** Releases the run's id, durably: its rows will be removed by this process or the next. */
  begin(runId: string, runKey: number): void {
    this.db.prepare(
      "UPDATE telemetry_runs SET run_id = ?, deleting = 1 WHERE run_key = ? AND run_id = ?",
    )
      .run(`deleted:${runKey}`, runKey, runId);
  }

  /** Continues deletions of an earlier process, in the background. */
  resume(): void {
    const left = this.db.prepare("SELECT run_key FROM telemetry_runs WHERE deleting = 1").all() as {
      run_key: number;
    }[];
    if (left.length === 0) return;
    (async () => {
      for (const { run_key } of left) await this.remove(run_key);
    })().catch(() => {
      // The tombstone stays, and the next start tries again; the next write reports a full disk.
    });
  }

  close(): void {
    this.#closed = true;
  }

  /** Removes the rows of a run whose deletion has begun; ends early if the store is closed. */
  async remove(runKey: number): Promise<void> {
    if (this.#closed) return;
    const row = this.db.prepare("SELECT wide FROM telemetry_runs WHERE run_key = ?").get(runKey) as
      | { wide: number }
      | undefined;
    // All rows are removed; only the space was not returned.
    if (row === undefined) return await this.giveBack();
    const { wide } = row;
    for (const table of TABLES) {
      const seqOf = table === "step_blocks" ? "first_seq" : "seq";
      const rows = table === "step_blocks"
        ? BLOCKS_PER_CHUNK
        : table === "steps" && wide
        ? WIDE_ROWS_PER_CHUNK
        : ROWS_PER_CHUNK;
      // From the end: the newest rows are nearest to the end of the file, where pages can be
      // returned without moving others.
      const first = this.db.prepare(
        `SELECT min(seq) AS seq FROM
          (SELECT ${seqOf} AS seq FROM ${table} WHERE run_key = ? ORDER BY seq DESC LIMIT ${rows})`,
      );
      const remove = this.db.prepare(`DELETE FROM ${table} WHERE run_key = ? AND ${seqOf} >= ?`);
      for (;;) {
        if (this.#closed) return;
        const { seq } = first.get(runKey) as { seq: number | null };
        if (seq === null) break;
        remove.run(runKey, seq);
        await this.#pause();
      }
    }
    const buckets = this.db.prepare(
      `DELETE FROM series_buckets WHERE run_key = ?1 AND (series, level, bucket) IN
        (SELECT series, level, bucket FROM series_buckets WHERE run_key = ?1 LIMIT ${ROWS_PER_CHUNK})`,
    );
    for (;;) {
      if (this.#closed) return;
      if (buckets.run({ "1": runKey }).changes === 0) break;
      await this.#pause();
    }
    for (const table of SMALL_TABLES) {
      this.db.prepare(`DELETE FROM ${table} WHERE run_key = ?`).run(runKey);
    }
    this.db.prepare("DELETE FROM telemetry_runs WHERE run_key = ?").run(runKey);
    await this.giveBack();
  }

  async #pause(): Promise<void> {
    this.wrote(PAGES_PER_CHUNK * 4096);
    await yieldToOthers();
  }

  /** Returns free pages to the file system. */
  async giveBack(): Promise<void> {
    const free = this.db.prepare("PRAGMA freelist_count");
    const vacuum = this.db.prepare(`PRAGMA incremental_vacuum(${PAGES_PER_CHUNK})`);
    for (let before = Infinity;;) {
      if (this.#closed) return;
      const { freelist_count } = free.get() as { freelist_count: number };
      if (freelist_count === 0 || freelist_count >= before) return;
      before = freelist_count;
      // all(): the pragma returns one page per step.
      vacuum.all();
      await this.#pause();
    }
  }
}
