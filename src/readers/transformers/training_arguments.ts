/**
 * `training_args.bin` of Transformers and TRL: the Trainer's arguments as torch saves an object, a
 * ZIP archive whose first file is a pickle. Its plain values are the run's parameters; nothing of
 * it is run.
 */
import { crc32c } from "../../base/crc32c.ts";
import { BaseReader, type Output } from "../format/base_reader.ts";
import { isObject } from "../format/flat.ts";
import type { FormatState } from "../format/format_reader.ts";
import { plainValue } from "./plain_pickle.ts";

/** Some kilobytes are usual. */
const MAX_BYTES = 4 << 20;
/** Of a file in a ZIP archive: signature, method, and the lengths of its name and extra field. */
const HEADER_BYTES = 30;
const SIGNATURE = 0x04034b50;
const decoder = new TextDecoder();

export class TrainingArgumentsReader extends BaseReader {
  readonly format = "training_args";
  /** Checksums of the arguments: each checkpoint repeats them. */
  #sum: number | undefined;
  #known = new Set<unknown>();

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#sum = state["sum"] as number | undefined;
  }

  protected memory(): Record<string, unknown> {
    return this.#sum === undefined ? {} : { sum: this.#sum };
  }

  protected forget(): void {
    this.#sum = undefined;
  }

  follow(states: readonly FormatState[]): void {
    this.#known = new Set(states.map((state) => state["sum"]));
  }

  protected override headOf(used: number): number {
    return used;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (this.position > 0) return left;
    try {
      if (left > MAX_BYTES) throw new RangeError(`it has more than ${MAX_BYTES} bytes`);
      const values = plainValue(pickleIn(bytes.subarray(at)));
      if (!isObject(values)) throw new TypeError("it has no object");
      // -1: the epochs decide, and trainer_state.json has the number of steps.
      const kept = Object.entries(values).filter(([name, value]) =>
        !name.startsWith("_") && !(name === "max_steps" && value === -1)
      );
      this.#sum = crc32c(new TextEncoder().encode(JSON.stringify(kept)));
      if (this.#known.has(this.#sum)) return left;
      out.records.push({
        kind: "params",
        origin: "config",
        wallTime: undefined,
        values: Object.fromEntries(kept),
        removed: [],
      });
    } catch (error) {
      // It may not be written to its end yet.
      if (!out.end && left <= MAX_BYTES) {
        out.need = left + 1;
        return 0;
      }
      const why = error instanceof Error ? error.message : String(error);
      const detail = `its arguments are not read (${why}); save them as training_args.json, ` +
        "with args.to_json_string()";
      out.problems.push({ what: "no_form", at: this.position, bytes: left, detail });
    }
    return left;
  }
}

/** @throws RangeError, TypeError */
function pickleIn(bytes: Uint8Array): Uint8Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== SIGNATURE) throw new TypeError("it is no ZIP archive");
  const name = view.getUint16(26, true);
  const file = decoder.decode(bytes.subarray(HEADER_BYTES, HEADER_BYTES + name));
  if (!file.endsWith("/data.pkl") || view.getUint16(8, true) !== 0) {
    throw new TypeError("its first file is no plain data.pkl");
  }
  return bytes.subarray(HEADER_BYTES + name + view.getUint16(28, true));
}
