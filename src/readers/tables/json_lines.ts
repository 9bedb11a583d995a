/**
 * Files with one JSON object per line: Stable-Baselines3's `progress.json`, RLlib's `result.json`,
 * and others like them.
 */
import { crc32c } from "../../base/crc32c.ts";
import { flatNumbers, isObject } from "../format/flat.ts";
import { jsonOf } from "../format/literal.ts";
import { BaseReader, MAX_RECORD_BYTES, type Output } from "../format/base_reader.ts";
import { peopleNumber } from "../format/people_numbers.ts";
import {
  NO_SERIES,
  saidStep,
  STEP_NAMES,
  stepName,
  timeName,
  timeOf,
} from "../format/step_column.ts";
import type { FormatState } from "../format/format_reader.ts";
import type { ParamValue, SourceRecord } from "../format/tracker_records.ts";

const LF = 10;
const decoder = new TextDecoder();

export class JsonLinesReader extends BaseReader {
  readonly format = "jsonl";
  #lines = 0;
  /** Checksum of the last configuration: RLlib repeats it in every line. */
  #configCrc = -1;
  #skipping = false;
  /** The file is no log, also where a line of it is an object. */
  #isDocument = false;

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#lines = state["lines"] as number;
    this.#configCrc = state["configCrc"] as number;
    this.#skipping = state["skipping"] as boolean;
    this.#isDocument = state["document"] === true;
  }

  protected memory(): Record<string, unknown> {
    return {
      lines: this.#lines,
      configCrc: this.#configCrc,
      skipping: this.#skipping,
      ...(this.#isDocument ? { document: true } : {}),
    };
  }

  protected forget(): void {
    this.#lines = 0;
    this.#configCrc = -1;
    this.#skipping = this.#isDocument = false;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const newline = bytes.indexOf(LF, at);
    const left = bytes.length - at;
    if (this.#skipping) {
      this.#skipping = newline < 0;
      return newline < 0 ? left : newline + 1 - at;
    }
    if (newline < 0) return this.#unended(bytes, at, out);
    this.#line(decoder.decode(bytes.subarray(at, newline)), newline + 1 - at, out);
    return newline + 1 - at;
  }

  /** The last line of a complete file counts if its closing brace is there. */
  #unended(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (left > MAX_RECORD_BYTES) {
      const detail = `a line of more than ${MAX_RECORD_BYTES} bytes`;
      out.problems.push({ what: "too_large", at: this.position, bytes: left, detail });
      this.#skipping = true;
      return left;
    }
    if (out.end) {
      const text = decoder.decode(bytes.subarray(at));
      if (isObject(jsonOf(text))) {
        this.#line(text, left, out);
        return left;
      }
      // No beginning of a record either.
      if (!text.trimStart().startsWith("{")) {
        this.#line(text, left, out);
        return left;
      }
    }
    out.need = left + 1;
    return 0;
  }

  #line(text: string, bytes: number, out: Output): void {
    const line = text.trim();
    if (line === "") return;
    const value = line[0] === "{" && !this.#isDocument ? jsonOf(line) : undefined;
    if (!isObject(value)) {
      this.#unreadable(line, bytes, out);
      return;
    }
    out.records.push(...this.#recordsOf(value));
    this.#lines++;
  }

  /**
   * A file that begins with a line that is no object has other lines, too: it is one document,
   * which is no log.
   */
  #unreadable(line: string, bytes: number, out: Output): void {
    this.#isDocument ||= this.#lines === 0 && this.position === 0 && /^(?:\{$|\[)/.test(line);
    const detail = this.#isDocument
      ? "it is one JSON document and no log with an object on each line"
      : "the line is no JSON object";
    out.problems.push({ what: "corrupt", at: this.position, bytes, detail });
  }

  #recordsOf(line: { [key: string]: ParamValue }): SourceRecord[] {
    const { config, ...others } = line;
    const numbers = flatNumbers(others, "/");
    addTextSteps(others, numbers);
    // A `config` that is no object is a normal field.
    if (!isObject(config) && typeof config === "number") numbers.set("config", config);
    const stepKey = stepName(numbers.keys());
    const timeKey = timeName(numbers.keys());
    const step = stepKey === undefined ? this.#lines : saidStep(stepKey, numbers.get(stepKey));
    const wallTime = timeOf(timeKey === undefined ? undefined : numbers.get(timeKey));
    const records: SourceRecord[] = [];
    if (isObject(config)) {
      const crc = crc32c(new TextEncoder().encode(JSON.stringify(config)));
      if (crc !== this.#configCrc) {
        records.push({ kind: "params", origin: "config", wallTime, values: config, removed: [] });
      }
      this.#configCrc = crc;
    }
    for (const [tag, value] of numbers) {
      if (NO_SERIES.has(tag) || tag === stepKey || (tag === timeKey && wallTime !== undefined)) {
        continue;
      }
      records.push({ kind: "scalar", tag, step, wallTime, value });
    }
    return records;
  }
}

/**
 * A step that is written as a text: `"100"`, `"1k"`. Its place among the numbers is that of its
 * name.
 */
function addTextSteps(line: { [key: string]: ParamValue }, numbers: Map<string, number>): void {
  for (const name of STEP_NAMES) {
    const text = line[name];
    const value = typeof text === "string" ? peopleNumber(text)?.value : undefined;
    if (value !== undefined) numbers.set(name, value);
  }
  if (stepName(numbers.keys()) !== undefined) return;
  // It says a step that is none: its place is not the line's.
  const name = STEP_NAMES.find((one) => typeof line[one] === "string" && /\d/.test(line[one]));
  if (name !== undefined) numbers.set(name, NaN);
}
