/**
 * W&B's `run-ID.wandb`: every message of an offline run, in a LevelDB log. `wandb_record.ts` reads
 * the messages.
 */
import { readLogRecord } from "./leveldb_log.ts";
import { BaseReader, MAX_RECORD_BYTES, type Output } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import { type AxesState, WandbAxes } from "./wandb_axes.ts";
import { readWandbRecord } from "./wandb_record.ts";

/** ":W&B", 0xBEE1, version 0. */
export const WANDB_HEADER = Uint8Array.of(0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0);

export class WandbReader extends BaseReader {
  readonly format = "wandb";
  /** Bytes that are still to be skipped. */
  #skip = 0;
  /** The file is not a W&B log; nothing of it is read. */
  #foreign = false;
  #axes = new WandbAxes();

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#skip = state["skip"] as number;
    this.#foreign = state["foreign"] as boolean;
    this.#axes = new WandbAxes(state["axes"] as AxesState | undefined);
  }

  protected memory(): Record<string, unknown> {
    return {
      skip: this.#skip,
      foreign: this.#foreign,
      ...(this.#axes.isEmpty ? {} : { axes: this.#axes.state() }),
    };
  }

  protected forget(): void {
    this.#skip = 0;
    this.#foreign = false;
    this.#axes = new WandbAxes();
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (this.#foreign) return left;
    if (this.position === 0) return this.#header(bytes, at, out);
    if (this.#skip > 0) {
      const used = Math.min(this.#skip, left);
      this.#skip -= used;
      return used;
    }
    const record = readLogRecord(bytes, at, this.position, out.end);
    if ("need" in record) {
      out.need = record.need;
      return 0;
    }
    if ("broken" in record) {
      out.problems.push({
        what: "corrupt",
        at: this.position,
        bytes: record.used,
        detail: record.broken,
      });
    } else if ("tooLarge" in record) {
      const detail = `a record of more than ${MAX_RECORD_BYTES} bytes`;
      out.problems.push({ what: "too_large", at: this.position, bytes: record.used, detail });
    } else if (record.data !== undefined) {
      const why = readWandbRecord(record.data, this.#axes, out.records);
      if (why !== undefined) {
        out.problems.push({ what: "corrupt", at: this.position, bytes: record.used, detail: why });
      }
    }
    const used = Math.min(record.used, left);
    this.#skip = record.used - used;
    return used;
  }

  #header(bytes: Uint8Array, at: number, out: Output): number {
    if (bytes.length - at < WANDB_HEADER.length) {
      out.need = WANDB_HEADER.length;
      return 0;
    }
    if (WANDB_HEADER.every((byte, i) => bytes[at + i] === byte)) return WANDB_HEADER.length;
    const detail = "no W&B log of version 0: the first bytes are others";
    out.problems.push({ what: "corrupt", at: 0, bytes: bytes.length - at, detail });
    this.#foreign = true;
    return bytes.length - at;
  }
}
