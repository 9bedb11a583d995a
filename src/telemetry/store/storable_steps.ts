/**
 * Steps between arrival and storage. They stay columns all the way: what arrives is made storable (once, here), bound to
 * statements and kept in the ring without a row object being built. Rows are made only for readers.
 */
import type { StepColumns, StepRecord } from "../batch.ts";
import type { StoredStep } from "../types.ts";

/** Rows of storable columns: arrays of exactly `n`, or undefined where every row has the default. */
export interface CleanSteps {
  n: number;
  episode: number[] | undefined;
  step: number[] | undefined;
  /** NaN and infinities are themselves; never -0. */
  reward: number[] | undefined;
  hasNaN: boolean;
  terminated: number[] | undefined;
  truncated: number[] | undefined;
  tsNs: string[];
  agentId: string[] | string;
  workerId: string[] | string;
  policyLabel: string[] | string;
  backend: string[] | string;
  action: string[] | undefined;
  observation: string[] | undefined;
  info: string[] | undefined;
  renderHint: string[] | undefined;
  renderPayload: string[] | undefined;
  frameRef: string[] | undefined;
  payloadVersion: number[] | undefined;
  episodeSeed: number[] | undefined;
  /** Length of all texts, in UTF-16 units. */
  textLength: number;
  /** Values that had to be changed to be stored. */
  clamped: number;
}

/** The largest number of rows one batch may hold. */
export const MAX_BATCH_ROWS = 1_000_000;
const MAX_TS = "9223372036854775807";
const TS = /^(?:0|[1-9]\d{0,18})$/;

/** A text that SQLite gives back as it got it: no lone surrogate, no NUL. */
export function storableText(text: unknown): string {
  if (typeof text !== "string") return text === undefined || text === null ? "" : storableText(JSON.stringify(text));
  if (text.isWellFormed() && !text.includes("\0")) return text;
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** A count or index SQLite and JavaScript both hold exactly. */
export function storableInteger(value: unknown): number {
  const number = typeof value === "boolean" ? Number(value) : value;
  if (typeof number !== "number" || !(number > 0)) return 0;
  return number >= Number.MAX_SAFE_INTEGER ? Number.MAX_SAFE_INTEGER : Math.floor(number);
}

/** A reward as a number; texts name the values JSON lacks. -0 becomes 0, as in SQLite. */
export function storableReal(value: unknown): number {
  if (typeof value === "number") return value === 0 ? 0 : value;
  if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value);
  return typeof value === "boolean" ? Number(value) : 0;
}

export function storableTime(value: unknown, arrivalNs: string): string {
  if (typeof value !== "string" || !TS.test(value)) return arrivalNs;
  return value.length === 19 && value > MAX_TS ? arrivalNs : value;
}

class Cleaner {
  clamped = 0;
  textLength = 0;

  constructor(readonly n: number) {}

  integers(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      const value = out[i]!;
      if (Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)) continue;
      if (out === column) out = out.slice();
      out[i] = storableInteger(value);
      if (out[i] !== (value as unknown)) this.clamped++;
    }
    return out;
  }

  flags(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      if (out[i] === 0 || out[i] === 1) continue;
      if (out === column) out = out.slice();
      out[i] = out[i] ? 1 : 0;
    }
    return out;
  }

  reals(column: unknown): number[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as number[];
    if (out.length !== this.n) out = this.#fit(out, 0);
    for (let i = 0; i < out.length; i++) {
      const value = out[i]! as unknown;
      if (typeof value === "number" && value !== 0) continue;
      if (Object.is(value, 0)) continue;
      if (out === column) out = out.slice();
      out[i] = storableReal(value);
    }
    return out;
  }

  texts(column: unknown): string[] | undefined {
    if (!Array.isArray(column)) return this.#absent(column);
    let out = column as string[];
    if (out.length !== this.n) out = this.#fit(out, "");
    for (let i = 0; i < out.length; i++) {
      const value = out[i]!;
      const clean = storableText(value);
      if (clean !== value) {
        if (out === column) out = out.slice();
        out[i] = clean;
        this.clamped++;
      }
      this.textLength += clean.length;
    }
    return out;
  }

  labels(column: unknown): string[] | string {
    if (Array.isArray(column)) return this.texts(column)!;
    return column === undefined ? "" : storableText(column);
  }

  times(column: unknown, arrivalNs: string): string[] {
    if (!Array.isArray(column)) return new Array<string>(this.n).fill(arrivalNs);
    let out = column as string[];
    if (out.length !== this.n) out = this.#fit(out, "");
    for (let i = 0; i < out.length; i++) {
      const clean = storableTime(out[i], arrivalNs);
      if (clean === out[i]) continue;
      if (out === column) out = out.slice();
      if (out[i] !== "") this.clamped++;
      out[i] = clean;
    }
    return out;
  }

  #absent(column: unknown): undefined {
    if (column !== undefined && column !== null) this.clamped += this.n;
    return undefined;
  }

  #fit<T>(column: T[], missing: T): T[] {
    this.clamped += Math.abs(this.n - column.length);
    const out = column.slice(0, this.n);
    while (out.length < this.n) out.push(missing);
    return out;
  }
}

/** Makes a batch's steps storable; arrays that need no change are kept, not copied. */
export function cleanSteps(steps: StepColumns, arrivalNs: string): CleanSteps {
  const n = Math.min(storableInteger(steps.n), MAX_BATCH_ROWS);
  const cleaner = new Cleaner(n);
  const reward = n === 0 ? undefined : cleaner.reals(steps.reward);
  let hasNaN = false;
  if (reward !== undefined) {
    for (let i = 0; i < n; i++) {
      if (Number.isNaN(reward[i])) {
        hasNaN = true;
        break;
      }
    }
  }
  return {
    n,
    episode: cleaner.integers(steps.episode),
    step: cleaner.integers(steps.step),
    reward,
    hasNaN,
    terminated: cleaner.flags(steps.terminated),
    truncated: cleaner.flags(steps.truncated),
    tsNs: cleaner.times(steps.tsNs, arrivalNs),
    agentId: cleaner.labels(steps.agentId),
    workerId: cleaner.labels(steps.workerId),
    policyLabel: cleaner.labels(steps.policyLabel),
    backend: cleaner.labels(steps.backend),
    action: cleaner.texts(steps.actionJson),
    observation: cleaner.texts(steps.observationJson),
    info: cleaner.texts(steps.infoJson),
    renderHint: cleaner.texts(steps.renderHintJson),
    renderPayload: cleaner.texts(steps.renderPayloadJson),
    frameRef: cleaner.texts(steps.frameRef),
    payloadVersion: cleaner.integers(steps.payloadVersion),
    episodeSeed: cleaner.integers(steps.episodeSeed),
    textLength: cleaner.textLength,
    clamped: cleaner.clamped,
  };
}

function labelAt(column: string[] | string, i: number): string {
  return typeof column === "string" ? column : column[i]!;
}

/** Row `i` as readers get it. */
export function stepAt(columns: CleanSteps, i: number, seq: number, attempt: number): StoredStep {
  return {
    seq,
    attempt,
    episode: columns.episode?.[i] ?? 0,
    step: columns.step?.[i] ?? 0,
    reward: columns.reward?.[i] ?? 0,
    terminated: columns.terminated?.[i] === 1,
    truncated: columns.truncated?.[i] === 1,
    tsNs: columns.tsNs[i]!,
    agentId: labelAt(columns.agentId, i),
    workerId: labelAt(columns.workerId, i),
    policyLabel: labelAt(columns.policyLabel, i),
    backend: labelAt(columns.backend, i),
    actionJson: columns.action?.[i] ?? "",
    observationJson: columns.observation?.[i] ?? "",
    renderHintJson: columns.renderHint?.[i] ?? "",
    renderPayloadJson: columns.renderPayload?.[i] ?? "",
    frameRef: columns.frameRef?.[i] ?? "",
    payloadVersion: columns.payloadVersion?.[i] ?? 0,
    episodeSeed: columns.episodeSeed?.[i] ?? 0,
    infoJson: columns.info?.[i] ?? "",
  };
}

/** Length of row `i`'s texts. */
export function stepTextLength(columns: CleanSteps, i: number): number {
  return (columns.action?.[i]?.length ?? 0) + (columns.observation?.[i]?.length ?? 0) +
    (columns.info?.[i]?.length ?? 0) +
    (columns.renderPayload?.[i]?.length ?? 0) + (columns.renderHint?.[i]?.length ?? 0) +
    (columns.frameRef?.[i]?.length ?? 0);
}

/** Records (the original's Publish RPCs) as the columns a proxy would have sent. */
export function columnsOf(records: readonly StepRecord[]): StepColumns {
  const column = <K extends keyof StepRecord>(key: K): StepRecord[K][] => records.map((record) => record[key]);
  const texts = <K extends keyof StepRecord>(key: K): string[] | undefined => {
    const values = column(key) as string[];
    return values.some((value) => value !== "") ? values : undefined;
  };
  const label = (key: "agentId" | "workerId" | "policyLabel" | "backend"): string[] | string => {
    const first = records[0]?.[key] ?? "";
    return records.every((record) => record[key] === first) ? first : column(key);
  };
  return {
    n: records.length,
    episode: column("episode"),
    step: column("step"),
    reward: column("reward"),
    terminated: column("terminated").map(Number),
    truncated: column("truncated").map(Number),
    tsNs: column("tsNs"),
    agentId: label("agentId"),
    workerId: label("workerId"),
    policyLabel: label("policyLabel"),
    backend: label("backend"),
    actionJson: texts("actionJson"),
    observationJson: texts("observationJson"),
    renderHintJson: texts("renderHintJson"),
    renderPayloadJson: texts("renderPayloadJson"),
    frameRef: texts("frameRef"),
    payloadVersion: column("payloadVersion"),
    episodeSeed: column("episodeSeed"),
    infoJson: texts("infoJson"),
  };
}
