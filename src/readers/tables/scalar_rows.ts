/**
 * TorchRL's CSVLogger: a file for each scalar, whose name is the scalar's, with rows of a step and
 * a value, and no header.
 */
import { BaseReader, type Output } from "../format/base_reader.ts";
import type { FormatState } from "../format/format_reader.ts";
import { numberOfText } from "../format/literal.ts";

const LF = 10;
/** Two numbers are not longer. */
const MAX_ROW = 256;
const decoder = new TextDecoder();

export class ScalarRowsReader extends BaseReader {
  readonly format = "scalar_rows";

  constructor(state?: FormatState) {
    super();
    if (state !== undefined) this.restoreBase(state);
  }

  protected memory(): Record<string, unknown> {
    return {};
  }

  protected forget(): void {}

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const newline = bytes.indexOf(LF, at);
    // A value may be written only in part.
    if (newline < 0 && bytes.length - at <= MAX_ROW) {
      out.need = bytes.length - at + 1;
      return 0;
    }
    const used = (newline < 0 ? bytes.length : newline + 1) - at;
    const [step, value, ...more] = decoder.decode(bytes.subarray(at, at + used)).trim().split(",")
      .map(numberOfText);
    if (step === undefined || value === undefined || more.length > 0) {
      out.problems.push({
        what: "corrupt",
        at: this.position,
        bytes: used,
        detail: "the row is no step and value",
      });
      return used;
    }
    const isStep = Number.isSafeInteger(step) && step >= 0;
    // The file's name (`withTag`).
    out.records.push({
      kind: "scalar",
      tag: "",
      step: isStep ? step : undefined,
      wallTime: undefined,
      value,
    });
    return used;
  }
}
