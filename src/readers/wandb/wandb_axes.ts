/**
 * What a W&B run says about its metrics: `define_metric`'s own axes, and which keys its history
 * has. Pure.
 */
import type { ParamValue } from "../format/tracker_records.ts";
import { stepOf } from "../format/step_column.ts";

/** A reader's state is stored with each batch: these bounds keep it small. */
const MOST_METRICS = 256;
const MOST_KEYS = 1000;
const LONGEST = 200;
/**
 * Characters of keys, of results, and of definitions with their axes, each with what JSON puts
 * around them.
 */
const MOST_TEXT = 16 << 10;
const AROUND = 24;

interface Definition {
  /** The metric's name, or with `*` at its end the beginning of the names. */
  name: string;
  step: string;
}

export interface AxesState {
  definitions: Definition[];
  last: [name: string, step: number][];
  keys: string[];
  results: [name: string, value: number | string][];
  keysAreMore?: true;
}

const lengthOf = (name: string, value: number | string) =>
  name.length + String(value).length + 2 * AROUND;

export class WandbAxes {
  readonly #definitions: Definition[];
  /** The newest value of each axis: a row without it is at that place. */
  readonly #last: Map<string, number>;
  readonly #keys: Set<string>;
  /**
   * Of the summary; W&B writes it before the row of the history that it comes from, if it comes
   * from one.
   */
  readonly #results: Map<string, number | string>;
  readonly #lengths = { keys: 0, results: 0, definitions: 0 };
  /** There are more keys than are kept: then it is not known what the summary only repeats. */
  #keysAreMore: boolean;

  constructor(state?: AxesState) {
    this.#definitions = state?.definitions ?? [];
    this.#last = new Map(state?.last);
    this.#keys = new Set(state?.keys);
    this.#results = new Map(state?.results);
    this.#keysAreMore = state?.keysAreMore ?? false;
    for (const key of this.#keys) this.#lengths.keys += key.length + AROUND;
    for (const [name, value] of this.#results) this.#lengths.results += lengthOf(name, value);
    for (const { name, step } of this.#definitions) {
      this.#lengths.definitions += lengthOf(name, step + step);
    }
  }

  get isEmpty(): boolean {
    return !this.#keysAreMore &&
      this.#definitions.length + this.#keys.size + this.#results.size === 0;
  }

  state(): AxesState {
    return {
      definitions: this.#definitions,
      last: [...this.#last],
      keys: [...this.#keys],
      results: [...this.#results],
      ...(this.#keysAreMore ? { keysAreMore: true } : {}),
    };
  }

  /** @param step "": the metric has no axis of its own */
  define(name: string, step: string): void {
    if (name === "" || name.length > LONGEST || step.length > LONGEST) return;
    const known = this.#definitions.findIndex((one) => one.name === name);
    // The axis' newest value is kept, too.
    const length = lengthOf(name, step + step);
    if (known >= 0) {
      const [old] = this.#definitions.splice(known, 1);
      this.#lengths.definitions -= lengthOf(old!.name, old!.step + old!.step);
    }
    if (step === "" || this.#definitions.length >= MOST_METRICS) return;
    if (this.#lengths.definitions + length > MOST_TEXT) return;
    this.#lengths.definitions += length;
    this.#definitions.push({ name, step });
  }

  /** The values of the axes in a row of the history. */
  row(value: (name: string) => ParamValue | undefined): void {
    for (const { step } of this.#definitions) {
      const number = value(step);
      const at = typeof number === "number" ? stepOf(number) : undefined;
      if (at !== undefined) this.#last.set(step, at);
    }
  }

  /**
   * The step of a metric on its own axis; undefined: it has none, or the axis has no whole number
   * yet.
   */
  stepOf(name: string): number | undefined {
    if (this.#definitions.length === 0) return undefined;
    const exact = this.#definitions.find((one) => one.name === name);
    const found = exact ??
      this.#definitions.find((one) =>
        one.name.endsWith("*") && name.startsWith(one.name.slice(0, -1))
      );
    return found === undefined || found.step === name ? undefined : this.#last.get(found.step);
  }

  /** The history has this key, so the summary only repeats it. */
  logged(name: string): void {
    if (this.#keysAreMore || this.#keys.has(name)) return;
    const length = this.#lengths.keys + name.length + AROUND;
    if (this.#keys.size >= MOST_KEYS || name.length > LONGEST || length > MOST_TEXT) {
      this.#keysAreMore = true;
      this.#keys.clear();
    } else {
      this.#keys.add(name);
      this.#lengths.keys = length;
    }
  }

  result(name: string, value: number | string): void {
    const fits = name.length <= LONGEST &&
      (typeof value === "number" ? Number.isFinite(value) : value.length <= LONGEST);
    if (!fits || this.#keysAreMore) return;
    const before = this.#results.get(name);
    const length = this.#lengths.results + lengthOf(name, value) -
      (before === undefined ? 0 : lengthOf(name, before));
    if ((before === undefined && this.#results.size >= MOST_METRICS) || length > MOST_TEXT) return;
    this.#lengths.results = length;
    this.#results.set(name, value);
  }

  /** `loss.min` only says what the points of `loss` say. */
  #isLogged(name: string): boolean {
    for (let dot = name.length; dot > 0; dot = name.lastIndexOf(".", dot - 1)) {
      if (this.#keys.has(name.slice(0, dot))) return true;
    }
    return false;
  }

  /** What the summary has and the history has not, once. */
  takeResults(): [name: string, value: number | string][] {
    const found = this.#keysAreMore
      ? []
      : [...this.#results].filter(([name]) => !this.#isLogged(name));
    this.#results.clear();
    this.#lengths.results = 0;
    return found;
  }
}
