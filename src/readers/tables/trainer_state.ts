/**
 * `trainer_state.json` of Hugging Face's Trainer: one JSON object whose `log_history` has what the
 * Trainer has logged so far. Each checkpoint has one, which repeats those before it.
 */
import { BaseReader, type Output } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import { isObject } from "../format/flat.ts";
import { jsonOf } from "../format/literal.ts";
import type { ParamValue } from "../format/tracker_records.ts";

/** About 100 000 entries. */
const MAX_BYTES = 16 << 20;
/** What the run was told, beside what it has reached. */
const PARAMETERS = [
  "max_steps",
  "num_train_epochs",
  "train_batch_size",
  "logging_steps",
  "eval_steps",
  "save_steps",
];
const decoder = new TextDecoder();

export class TrainerStateReader extends BaseReader {
  readonly format = "trainer_state";

  constructor(state?: FormatState) {
    super();
    if (state !== undefined) this.restoreBase(state);
  }

  protected memory(): Record<string, unknown> {
    return {};
  }

  protected forget(): void {}

  /** It is written anew as a whole. */
  protected override headOf(used: number): number {
    return used;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    const isLarge = left > MAX_BYTES;
    const state = this.position > 0 || isLarge
      ? undefined
      : jsonOf(decoder.decode(bytes.subarray(at)));
    if (isObject(state) && Array.isArray(state["log_history"])) {
      this.#addAll(state, state["log_history"], out);
      return left;
    }
    if (!isLarge && this.position === 0 && !out.end) {
      // It may not be written to its end yet.
      out.need = left + 1;
      return 0;
    }
    out.problems.push({
      what: isLarge ? "too_large" : "corrupt",
      at: this.position,
      bytes: left,
      detail: isLarge
        ? `more than ${MAX_BYTES} bytes are not read as a trainer's state`
        : "not a JSON object with a log_history",
    });
    return left;
  }

  #addAll(state: { [name: string]: ParamValue }, log: readonly ParamValue[], out: Output): void {
    const values = Object.fromEntries(
      PARAMETERS.flatMap((name) => state[name] === undefined ? [] : [[name, state[name]]]),
    );
    if (Object.keys(values).length > 0) {
      out.records.push({
        kind: "params",
        origin: "config",
        wallTime: undefined,
        values,
        removed: [],
      });
    }
    for (const entry of log) {
      if (!isObject(entry)) continue;
      const { step: at, ...numbers } = entry;
      const step = Number.isSafeInteger(at) && Number(at) >= 0 ? Number(at) : undefined;
      for (const [tag, value] of Object.entries(numbers)) {
        if (typeof value !== "number") continue;
        out.records.push({ kind: "scalar", tag, step, wallTime: undefined, value });
      }
    }
  }
}
