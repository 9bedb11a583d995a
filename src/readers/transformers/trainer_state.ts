/**
 * `trainer_state.json` of Hugging Face's Trainer: one JSON document with all that was logged, in
 * each checkpoint's directory and beside them. Each repeats what the earlier ones have, so what is
 * known already is skipped: what this file has given, and what the others have (`follow`).
 */
import { crc32c } from "../../base/crc32c.ts";
import { flatNumbers, isObject } from "../format/flat.ts";
import { BaseReader, MAX_RECORD_BYTES, type Output } from "../format/base_reader.ts";
import { jsonOf } from "../format/literal.ts";
import { stepOf } from "../format/step_column.ts";
import type { FormatState } from "../format/format_reader.ts";
import type { ParamValue } from "../format/tracker_records.ts";

/** Checksums of so many of the last entries are kept. */
const MOST_KNOWN = 8000;
const DIGITS = 4;
/** What the Trainer states of its own length. Its other arguments are in `training_args.bin`. */
const PARAMETERS = ["max_steps", "num_train_epochs", "train_batch_size", "logging_steps"] as const;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

type Entry = { [key: string]: ParamValue };

/** What a file has given: how many entries, and the checksums of the last ones. */
interface Known {
  entries: number;
  sums: string;
  others: string;
}

const NOTHING: Known = { entries: 0, sums: "", others: "" };

export class TrainerStateReader extends BaseReader {
  readonly format = "trainer_state";
  readonly skipsKnown = true;
  #known = NOTHING;
  #followed: Known[] = [];

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#known = state["known"] as Known;
  }

  protected memory(): Record<string, unknown> {
    return { known: this.#known };
  }

  protected forget(): void {}

  follow(states: readonly FormatState[]): void {
    this.#followed = states.map((state) => state["known"] as Known);
  }

  /** The whole content: another value anywhere is another file. */
  protected override headOf(used: number): number {
    return used;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    const document = left > MAX_RECORD_BYTES ? undefined : jsonOf(decoder.decode(
      bytes.subarray(at),
    ));
    if (isObject(document) && this.position === 0) {
      this.#take(document, out);
      return left;
    }
    if (!out.end && left <= MAX_RECORD_BYTES && this.position === 0) {
      out.need = left + 1;
      return 0;
    }
    const detail = "the file is not the JSON document that Transformers' Trainer writes";
    out.problems.push({ what: "corrupt", at: this.position, bytes: left, detail });
    return left;
  }

  #take(document: Entry, out: Output): void {
    const log = document["log_history"];
    const entries = (Array.isArray(log) ? log : []).filter(isObject);
    const sums = entries.map((entry) => sumOf(entry));
    const all = [this.#known, ...this.#followed];
    const common = Math.max(...all.map((known) => commonWith(known, sums)));
    const others = this.#others(document, new Set(all.map((known) => known.others)), out);
    for (const entry of entries.slice(common)) {
      const { step: named, ...values } = entry;
      const step = stepOf(typeof named === "number" ? named : undefined);
      for (const [tag, value] of flatNumbers(values, "/")) {
        out.records.push({ kind: "scalar", tag, step, wallTime: undefined, value });
      }
    }
    this.#known = {
      entries: entries.length,
      sums: sums.slice(-MOST_KNOWN).join(""),
      others,
    };
  }

  /** Its length, and the best checkpoint, if they are news. @returns their checksum */
  #others(document: Entry, known: ReadonlySet<string>, out: Output): string {
    const values = Object.fromEntries(
      PARAMETERS.flatMap((name) => {
        const value = document[name];
        return typeof value === "number" ? [[name, value]] : [];
      }),
    );
    const { best_model_checkpoint: path, best_metric: metric, best_global_step: step } = document;
    const sum = sumOf({ ...values, path: path ?? null, metric: metric ?? null });
    if (known.has(sum)) return sum;
    out.records.push({
      kind: "params",
      origin: "config",
      wallTime: undefined,
      values,
      removed: [],
    });
    if (typeof path === "string") {
      const text = typeof metric === "number" ? `${path} (best_metric ${metric})` : path;
      const at = stepOf(typeof step === "number" ? step : undefined);
      const tag = "best_model_checkpoint";
      out.records.push({ kind: "text", tag, step: at, wallTime: undefined, text });
    }
    return sum;
  }
}

function sumOf(entry: Entry): string {
  return (crc32c(encoder.encode(JSON.stringify(entry))) & 0xffff).toString(16)
    .padStart(DIGITS, "0");
}

/** How many of the first entries are known. */
function commonWith({ entries, sums }: Known, all: readonly string[]): number {
  const first = entries - sums.length / DIGITS;
  if (all.length < first) return all.length;
  for (let i = first; i < Math.min(entries, all.length); i++) {
    const at = (i - first) * DIGITS;
    if (sums.slice(at, at + DIGITS) !== all[i]) return i;
  }
  return Math.min(entries, all.length);
}
