/**
 * A run's steps on disk: blocks, and after them rows of earlier versions that wait to become
 * blocks. Call the writing functions inside a transaction.
 */
import type { DatabaseSync } from "node:sqlite";
import type { StoredStep } from "../../gen/records/record_types.ts";
import { READ_BYTES, type RowReader, type Source } from "../tables/row_reader.ts";
import { NO_BLOCKS, type RunState, type SmallBlocks } from "../runs/run_state.ts";
import { type Block, type BlockSteps, joinedSteps } from "../../records/step_block.ts";
import type { StepBlocks } from "../blocks/step_blocks.ts";
import { StepWriter } from "../blocks/step_writer.ts";
import type { CleanSteps } from "../../records/storable_steps.ts";

/**
 * Small blocks are merged when they have this many steps or enough text, or are too many; a block
 * of `direct` steps is not small.
 */
const BLOCKS = { steps: 1024, direct: 256 };
const BLOCK_TEXT = 1024 * 1024;
const MOST_SMALL = 64;
/** More waiting rows are left to the background. */
export const MOST_WAITING = 4096;

/**
 * Number of steps at which small blocks are merged, and from which a block is not small. "none":
 * all steps are rows, as in earlier versions.
 */
export type BlockLimits = { steps?: number; direct?: number } | "none";

export class StepStorage {
  readonly #blocks: StepBlocks;
  readonly #rows: StepWriter;
  readonly #reader: RowReader;
  readonly #limits: BlockLimits;

  constructor(db: DatabaseSync, blocks: StepBlocks, reader: RowReader, limits: BlockLimits = {}) {
    this.#blocks = blocks;
    this.#rows = new StepWriter(db);
    this.#reader = reader;
    this.#limits = limits;
  }

  /** Steps after `since`, ascending, of about READ_BYTES. @param limit number of steps */
  read(
    state: RunState,
    since: number,
    limit: number,
    sourceOf: (source: number) => Source,
  ): StoredStep[] {
    const { runKey, sealed, heads, wide } = state;
    const { rows, length } = this.#blocks.read(runKey, since, limit, READ_BYTES);
    const after = Math.max(since, sealed);
    if (rows.length >= limit || length >= READ_BYTES || heads.steps <= after) return rows;
    const left = wide ? READ_BYTES - length : undefined;
    return [...rows, ...this.#reader.steps(runKey, after, limit - rows.length, left, sourceOf)];
  }

  /** A whole block, sealed by a proxy, after what `sealRows` has sealed. */
  put(state: RunState, block: Block): void {
    this.#writeBlock(state, true);
    this.#blocks.put(state.runKey, block);
    state.sealed = block.first + block.n - 1;
  }

  /** Writes the steps that `add` has kept; call it before the commit. */
  finish(state: RunState): void {
    if (state.live!.unsealed.length > 0) this.#writeBlock(state, false);
  }

  /** Makes a block of rows that `tail` has read. @param last seq of the last one */
  seal(state: RunState, first: number, last: number, steps: BlockSteps): void {
    this.#blocks.write(state.runKey, first, steps);
    this.#blocks.removeTail(state.runKey, state.sealed, last);
  }

  /**
   * Makes a block of an earlier version's waiting rows; false if the background must do it, as in a
   * database older than blocks.
   */
  sealRows(state: RunState, first: number): boolean {
    if (this.#limits === "none") return false;
    const { runKey, sealed } = state;
    const waiting = first - 1 - sealed;
    if (waiting === 0) return true;
    const tail = waiting <= MOST_WAITING ? this.tail(state, waiting) : undefined;
    if (tail?.first !== sealed + 1 || tail.n !== waiting) return false;
    state.sealed = this.#blocks.write(runKey, tail.first, tail);
    this.#blocks.removeTail(runKey, sealed, state.sealed);
    return true;
  }

  /**
   * Keeps steps for the block that is written with the commit; after waiting rows, they are written
   * as rows.
   */
  add(
    state: RunState,
    first: number,
    attempt: number,
    steps: CleanSteps,
    source: number[] | number,
  ): void {
    if (!this.sealRows(state, first)) {
      return this.#rows.insert(state.runKey, first, attempt, steps, source);
    }
    state.live!.unsealed.push({ ...steps, attempt, source });
    state.sealed += steps.n;
  }

  /**
   * Writes the transaction's steps so far as a block. Blocks of all runs follow each other in the
   * file, so a commit writes the same few pages however many runs are in it. Small blocks are
   * merged with it when there are enough.
   * @param close the next block must not be merged with it
   */
  #writeBlock(state: RunState, close: boolean): void {
    const { runKey, small } = state;
    const unsealed = state.live!.unsealed.splice(0);
    const own = { blocks: 1, steps: 0, text: 0 };
    for (const { n, textLength } of unsealed) {
      own.steps += n;
      own.text += textLength;
    }
    const all = {
      blocks: small.blocks + 1,
      steps: small.steps + own.steps,
      text: small.text + own.text,
    };
    const { steps: enough, direct } = { ...BLOCKS, ...this.#limits as object };
    const full = ({ steps, text }: SmallBlocks) =>
      close || own.steps >= direct || steps >= enough || text >= BLOCK_TEXT;
    const join = small.blocks > 0 && (full(all) || all.blocks > MOST_SMALL);
    const first = state.sealed - own.steps + 1;
    const before = join ? this.#blocks.take(runKey, first - small.steps, first - 1) : undefined;
    const parts = [...before ?? [], ...unsealed];
    if (parts.length > 0) {
      this.#blocks.write(
        runKey,
        before === undefined ? first : first - small.steps,
        joinedSteps(parts),
      );
    }
    const newest = before !== undefined ? { ...all, blocks: 1 } : join ? own : all;
    state.small = full(newest) ? NO_BLOCKS : newest;
  }

  /** Waiting rows, as far as they are contiguous and memory allows. */
  tail(state: RunState, most: number) {
    const { runKey, sealed, wide } = state;
    const fitting = wide ? this.#reader.stepsThatFit(runKey, sealed, most, READ_BYTES) : most;
    return this.#blocks.tail(runKey, sealed, fitting);
  }
}
