/**
 * A file that holds a run's parameters as one JSON object (`args.json`, as programs write their
 * command line's arguments, and `params.json` of Tune) or as YAML (Lightning's `hparams.yaml`,
 * Hydra's `.hydra/config.yaml`). It is written at once, and written anew as a whole.
 */
import { BaseReader, type Output, READ_AGAIN } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import { isObject } from "../format/flat.ts";
import { jsonOf } from "../format/literal.ts";
import type { ParamValue } from "../format/tracker_records.ts";
import { yamlValues } from "./yaml_values.ts";

/** A larger file is no list of parameters. */
const MAX_BYTES = 1 << 20;
const decoder = new TextDecoder();

export class ParametersReader extends BaseReader {
  readonly format = "parameters";
  #isYaml = false;

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#isYaml = state["yaml"] === true;
  }

  protected memory(): Record<string, unknown> {
    return this.#isYaml ? { yaml: true } : {};
  }

  protected forget(): void {
    this.#isYaml = false;
  }

  /** The whole content: another value anywhere is another file. */
  protected override headOf(used: number): number {
    return used;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    const text = decoder.decode(bytes.subarray(at));
    const isYaml = this.position > 0 ? this.#isYaml : !/^\s*[[{"]/.test(text);
    // A longer file had not been written to its end.
    if (isYaml && this.position > 0) return READ_AGAIN;
    if (this.position > 0 || left > MAX_BYTES) {
      const detail = this.position > 0
        ? "something follows the object with the parameters"
        : `more than ${MAX_BYTES} bytes are not read as parameters`;
      out.problems.push({
        what: this.position > 0 ? "corrupt" : "too_large",
        at: this.position,
        bytes: left,
        detail,
      });
      return left;
    }
    const values = isYaml ? this.#yaml(text, out) : jsonOf(text);
    if (isObject(values)) {
      this.#isYaml = isYaml;
      out.records.push({
        kind: "params",
        origin: "config",
        wallTime: undefined,
        values,
        removed: [],
      });
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

  /** undefined: it may not be written to its end yet. @throws NotYaml */
  #yaml(text: string, out: Output): ParamValue | undefined {
    try {
      return yamlValues(text);
    } catch (error) {
      if (out.end) throw error;
      return undefined;
    }
  }
}
