/**
 * A file with one JSON object that holds a run's parameters: `args.json`, as programs write their command line's arguments,
 * and `params.json` of Tune. It is written at once, and written anew as a whole.
 */
import { BaseReader, type Output } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import { isObject } from "../format/flat.ts";
import { jsonOf } from "../format/literal.ts";

/** A larger file is no list of parameters. */
const MAX_BYTES = 1 << 20;
const decoder = new TextDecoder();

export class ParametersReader extends BaseReader {
  readonly format = "parameters";

  constructor(state?: FormatState) {
    super();
    if (state !== undefined) this.restoreBase(state);
  }

  protected memory(): Record<string, unknown> {
    return {};
  }

  protected forget(): void {}

  /** The whole content: another value anywhere is another file. */
  protected override headOf(used: number): number {
    return used;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (this.position > 0 || left > MAX_BYTES) {
      const detail = this.position > 0
        ? "something follows the object with the parameters"
        : `more than ${MAX_BYTES} bytes are not read as parameters`;
      out.problems.push({ what: this.position > 0 ? "corrupt" : "too_large", at: this.position, bytes: left, detail });
      return left;
    }
    const values = jsonOf(decoder.decode(bytes.subarray(at)));
    if (isObject(values)) {
      out.records.push({ kind: "params", origin: "config", wallTime: undefined, values, removed: [] });
      return left;
    }
    if (!out.end) {
      out.need = left + 1;
      return 0;
    }
    const detail = "the file is no JSON object with parameters";
    out.problems.push({ what: "corrupt", at: this.position, bytes: left, detail });
    return left;
  }
}
