/** Makes blocks in the background: of waiting rows, and of small blocks of silent runs. */
import type { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../../base/errors.ts";
import { sleep, yieldToOthers } from "../../base/time/sleep.ts";
import { machineTrouble } from "../blocks/failures.ts";
import { NO_BLOCKS } from "../runs/run_state.ts";
import { isSilent, type RunStates } from "./run_states.ts";
import type { StepBlocks } from "../blocks/step_blocks.ts";
import { MOST_WAITING, type StepStorage } from "./step_storage.ts";

/** Rows that become a block in one transaction. */
const SEAL_CHUNK = 2048;
/** Fewer rows of a silent run get no block. */
const WORTH_A_BLOCK = 64;
const SEAL_EVERY_MS = 30_000;
/** Sealing takes a tenth of the time. */
const SEAL_PAUSE_FACTOR = 9;

export interface SealingParts {
  db: DatabaseSync;
  /** For messages. */
  path: string;
  states: RunStates;
  steps: StepStorage;
  blocks: StepBlocks;
  transaction: <T>(work: () => T) => T;
  /** A transaction has written some pages. */
  wrotePages: () => void;
  /** Returns free pages to the file system. */
  giveBack: () => Promise<void>;
  now: () => number;
}

export class Sealing {
  readonly #parts: SealingParts;
  readonly #timer: ReturnType<typeof setInterval>;
  #sealing = false;
  /** Whether runs that were not read since the start were checked. */
  #sealedOlder = false;
  #closed = false;

  constructor(parts: SealingParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => this.sealWaiting(), SEAL_EVERY_MS);
    Deno.unrefTimer(this.#timer);
  }

  /** Work in progress ends soon. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
  }

  /**
   * Moves waiting rows into blocks, in the background: those of silent runs and of databases older
   * than blocks; and merges small blocks. It may be interrupted at any time; the next call
   * continues.
   */
  async sealWaiting(): Promise<void> {
    if (this.#sealing || this.#closed) return;
    this.#sealing = true;
    let sealed = 0;
    try {
      for (const runId of this.#runsThatWait()) {
        sealed += await this.#sealRun(runId);
        await yieldToOthers();
      }
      this.#sealedOlder = true;
      if (sealed > MOST_WAITING && !this.#closed) await this.#parts.giveBack();
    } catch (error) {
      if (machineTrouble(error, this.#parts.path) === undefined) throw error;
    } finally {
      this.#sealing = false;
    }
  }

  async #sealRun(runId: string): Promise<number> {
    let sealed = 0;
    try {
      while (!this.#closed) {
        const start = performance.now();
        const n = this.#sealChunk(runId);
        if (n === 0) break;
        sealed += n;
        await sleep(SEAL_PAUSE_FACTOR * (performance.now() - start));
      }
      for (let before: number | undefined = Infinity; !this.#closed && before !== undefined;) {
        before = this.#mergeBlocks(runId, before);
        await yieldToOthers();
      }
    } catch (error) {
      // The next write or read reports a full disk or a damaged page; the rows can wait, and other
      // runs are not affected.
      if (
        !(error instanceof MosaicError) && machineTrouble(error, this.#parts.path) === undefined
      ) throw error;
    }
    return sealed;
  }

  /**
   * Merges the newest small blocks before a seq. @returns the seq before which there may be more
   */
  #mergeBlocks(runId: string, before: number): number | undefined {
    const state = this.#parts.states.get(runId);
    if (state === undefined) return undefined;
    // The newest blocks of a run that is being written will be merged with its next batches.
    const end = isSilent(state, this.#parts.now())
      ? before
      : Math.min(before, state.sealed - state.small.steps + 1);
    const firsts = this.#parts.blocks.smallOnes(state.runKey, end);
    if (firsts.length < 2) return undefined;
    let merged: boolean;
    try {
      merged = this.#parts.transaction(() => this.#parts.blocks.merge(state.runKey, firsts));
    } catch (error) {
      if (error instanceof MosaicError || machineTrouble(error, this.#parts.path) !== undefined) {
        throw error;
      }
      // One is damaged: readers report it, and the others can stay unmerged.
      return undefined;
    }
    if (!merged) return undefined;
    if (firsts.at(-1)! > state.sealed - state.small.steps) state.small = NO_BLOCKS;
    this.#parts.wrotePages();
    return firsts[0];
  }

  #runsThatWait(): string[] {
    const older = this.#sealedOlder ? [] : this.#parts.db.prepare(
      `SELECT run_id FROM telemetry_runs r WHERE deleting = 0 AND steps > ifnull((SELECT first_seq + n - 1
        FROM step_blocks b WHERE b.run_key = r.run_key ORDER BY first_seq DESC LIMIT 1), 0)`,
    ).all().map((row) => String(row.run_id));
    const known = [...this.#parts.states.known()].filter(([, { heads, sealed, live }]) =>
      live !== undefined || heads.steps > sealed
    )
      .map(([runId]) => runId);
    return [...new Set([...older, ...known])];
  }

  /** @returns the number of rows that are in a block now */
  #sealChunk(runId: string): number {
    const state = this.#parts.states.get(runId);
    if (state === undefined) return 0;
    if (!isSilent(state, this.#parts.now()) && state.heads.steps - state.sealed <= MOST_WAITING) {
      return 0;
    }
    const tail = this.#parts.steps.tail(state, SEAL_CHUNK);
    if (tail === undefined) return 0;
    const { first, ...steps } = tail;
    const last = first + steps.n - 1;
    // At the end a few rows stay; before a gap they become a block, so that those after it can.
    if (last === state.heads.steps && steps.n < WORTH_A_BLOCK) return 0;
    this.#parts.transaction(() => this.#parts.steps.seal(state, first, last, steps));
    this.#parts.wrotePages();
    state.sealed = last;
    return steps.n;
  }
}
