// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

import type { CleanSteps, StepColumns, StepRecord, StoredStep } from "./record_types.ts";

/** Non-finite numbers travel as text: JSON has none. */
export function numberOnWire(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** A column whose first rows have the default. */
function begun<T>(rows: number, standard: T, value: T): T[] {
  const values: T[] = [];
  for (let i = 0; i < rows; i++) values.push(standard);
  values.push(value);
  return values;
}

/** A column of texts, which may be of another kind than an array. */
export interface TextSink<Text> {
  push(text: Text | ""): unknown;
}

function begunTexts<Text, Texts extends TextSink<Text>>(texts: Texts, rows: number, value: Text): Texts {
  for (let i = 0; i < rows; i++) texts.push("");
  texts.push(value);
  return texts;
}

/**
 * Steps as columns. A column takes up nothing before a row differs from the default, or from the
 * label of the first row.
 */
export class StepColumnsBuilder<Text extends string | object, Texts extends TextSink<Text>> {
  readonly #texts: () => Texts;
  #n = 0;
  #episode: number[] | undefined;
  #step: number[] | undefined;
  #actionJson: Texts | undefined;
  #observationJson: Texts | undefined;
  #reward: (number | string)[] | undefined;
  #terminated: number[] | undefined;
  #truncated: number[] | undefined;
  #tsNs: string[] | undefined;
  #agentId = "";
  #agentIdRows: string[] | undefined;
  #workerId = "";
  #workerIdRows: string[] | undefined;
  #policyLabel = "";
  #policyLabelRows: string[] | undefined;
  #backend = "";
  #backendRows: string[] | undefined;
  #renderHintJson: Texts | undefined;
  #renderPayloadJson: Texts | undefined;
  #frameRef: Texts | undefined;
  #payloadVersion: number[] | undefined;
  #episodeSeed: number[] | undefined;
  #infoJson: Texts | undefined;

  /** @param texts makes a column of texts */
  constructor(texts: () => Texts) {
    this.#texts = texts;
  }

  get size(): number {
    return this.#n;
  }

  add(step: StepRecord<Text>): void {
    const row = this.#n++;
    if (this.#episode !== undefined) this.#episode.push(step.episode);
    else if (step.episode !== 0) this.#episode = begun(row, 0, step.episode);
    if (this.#step !== undefined) this.#step.push(step.step);
    else if (step.step !== 0) this.#step = begun(row, 0, step.step);
    if (this.#actionJson !== undefined) this.#actionJson.push(step.actionJson);
    else if (step.actionJson !== "") this.#actionJson = begunTexts<Text, Texts>(this.#texts(), row, step.actionJson);
    if (this.#observationJson !== undefined) this.#observationJson.push(step.observationJson);
    else if (step.observationJson !== "") this.#observationJson = begunTexts<Text, Texts>(this.#texts(), row, step.observationJson);
    const reward = numberOnWire(step.reward);
    if (this.#reward !== undefined) this.#reward.push(reward);
    else if (reward !== 0) this.#reward = begun<number | string>(row, 0, reward);
    const terminated = step.terminated ? 1 : 0;
    if (this.#terminated !== undefined) this.#terminated.push(terminated);
    else if (terminated !== 0) this.#terminated = begun(row, 0, terminated);
    const truncated = step.truncated ? 1 : 0;
    if (this.#truncated !== undefined) this.#truncated.push(truncated);
    else if (truncated !== 0) this.#truncated = begun(row, 0, truncated);
    if (this.#tsNs !== undefined) this.#tsNs.push(step.tsNs);
    else if (step.tsNs !== "") this.#tsNs = begun(row, "", step.tsNs);
    if (row === 0) this.#agentId = step.agentId;
    if (this.#agentIdRows !== undefined) this.#agentIdRows.push(step.agentId);
    else if (step.agentId !== this.#agentId) this.#agentIdRows = begun(row, this.#agentId, step.agentId);
    if (row === 0) this.#workerId = step.workerId;
    if (this.#workerIdRows !== undefined) this.#workerIdRows.push(step.workerId);
    else if (step.workerId !== this.#workerId) this.#workerIdRows = begun(row, this.#workerId, step.workerId);
    if (row === 0) this.#policyLabel = step.policyLabel;
    if (this.#policyLabelRows !== undefined) this.#policyLabelRows.push(step.policyLabel);
    else if (step.policyLabel !== this.#policyLabel) this.#policyLabelRows = begun(row, this.#policyLabel, step.policyLabel);
    if (row === 0) this.#backend = step.backend;
    if (this.#backendRows !== undefined) this.#backendRows.push(step.backend);
    else if (step.backend !== this.#backend) this.#backendRows = begun(row, this.#backend, step.backend);
    if (this.#renderHintJson !== undefined) this.#renderHintJson.push(step.renderHintJson);
    else if (step.renderHintJson !== "") this.#renderHintJson = begunTexts<Text, Texts>(this.#texts(), row, step.renderHintJson);
    if (this.#renderPayloadJson !== undefined) this.#renderPayloadJson.push(step.renderPayloadJson);
    else if (step.renderPayloadJson !== "") this.#renderPayloadJson = begunTexts<Text, Texts>(this.#texts(), row, step.renderPayloadJson);
    if (this.#frameRef !== undefined) this.#frameRef.push(step.frameRef);
    else if (step.frameRef !== "") this.#frameRef = begunTexts<Text, Texts>(this.#texts(), row, step.frameRef);
    if (this.#payloadVersion !== undefined) this.#payloadVersion.push(step.payloadVersion);
    else if (step.payloadVersion !== 0) this.#payloadVersion = begun(row, 0, step.payloadVersion);
    if (this.#episodeSeed !== undefined) this.#episodeSeed.push(step.episodeSeed);
    else if (step.episodeSeed !== 0) this.#episodeSeed = begun(row, 0, step.episodeSeed);
    if (this.#infoJson !== undefined) this.#infoJson.push(step.infoJson);
    else if (step.infoJson !== "") this.#infoJson = begunTexts<Text, Texts>(this.#texts(), row, step.infoJson);
  }

  /** The columns of what was added since the last call. */
  take(): StepColumns<Texts> {
    const columns: StepColumns<Texts> = { n: this.#n };
    if (this.#episode !== undefined) columns.episode = this.#episode;
    if (this.#step !== undefined) columns.step = this.#step;
    if (this.#actionJson !== undefined) columns.actionJson = this.#actionJson;
    if (this.#observationJson !== undefined) columns.observationJson = this.#observationJson;
    if (this.#reward !== undefined) columns.reward = this.#reward;
    if (this.#terminated !== undefined) columns.terminated = this.#terminated;
    if (this.#truncated !== undefined) columns.truncated = this.#truncated;
    if (this.#tsNs !== undefined) columns.tsNs = this.#tsNs;
    if (this.#agentIdRows !== undefined) columns.agentId = this.#agentIdRows;
    else if (this.#n > 0 && this.#agentId !== "") columns.agentId = this.#agentId;
    if (this.#workerIdRows !== undefined) columns.workerId = this.#workerIdRows;
    else if (this.#n > 0 && this.#workerId !== "") columns.workerId = this.#workerId;
    if (this.#policyLabelRows !== undefined) columns.policyLabel = this.#policyLabelRows;
    else if (this.#n > 0 && this.#policyLabel !== "") columns.policyLabel = this.#policyLabel;
    if (this.#backendRows !== undefined) columns.backend = this.#backendRows;
    else if (this.#n > 0 && this.#backend !== "") columns.backend = this.#backend;
    if (this.#renderHintJson !== undefined) columns.renderHintJson = this.#renderHintJson;
    if (this.#renderPayloadJson !== undefined) columns.renderPayloadJson = this.#renderPayloadJson;
    if (this.#frameRef !== undefined) columns.frameRef = this.#frameRef;
    if (this.#payloadVersion !== undefined) columns.payloadVersion = this.#payloadVersion;
    if (this.#episodeSeed !== undefined) columns.episodeSeed = this.#episodeSeed;
    if (this.#infoJson !== undefined) columns.infoJson = this.#infoJson;
    this.#n = 0;
    this.#episode = undefined;
    this.#step = undefined;
    this.#actionJson = undefined;
    this.#observationJson = undefined;
    this.#reward = undefined;
    this.#terminated = undefined;
    this.#truncated = undefined;
    this.#tsNs = undefined;
    this.#agentIdRows = undefined;
    this.#workerIdRows = undefined;
    this.#policyLabelRows = undefined;
    this.#backendRows = undefined;
    this.#renderHintJson = undefined;
    this.#renderPayloadJson = undefined;
    this.#frameRef = undefined;
    this.#payloadVersion = undefined;
    this.#episodeSeed = undefined;
    this.#infoJson = undefined;
    return columns;
  }
}

/** Makes columns storable: arrays of `n` with no value that SQLite would change. */
export interface ColumnCleaner<Texts> {
  readonly n: number;
  readonly textLength: number;
  readonly clamped: number;
  integers(column: unknown): number[] | undefined;
  flags(column: unknown): number[] | undefined;
  reals(column: unknown): number[] | undefined;
  texts(column: unknown): Texts | undefined;
  labels(column: unknown): string[] | string;
  times(column: unknown, arrivalNs: string): string[];
}

export function cleanColumns<Texts>(
  cleaner: ColumnCleaner<Texts>,
  steps: StepColumns<unknown>,
  arrivalNs: string,
): CleanSteps<Texts> {
  return {
    n: cleaner.n,
    episode: cleaner.integers(steps.episode),
    step: cleaner.integers(steps.step),
    actionJson: cleaner.texts(steps.actionJson),
    observationJson: cleaner.texts(steps.observationJson),
    reward: cleaner.reals(steps.reward),
    terminated: cleaner.flags(steps.terminated),
    truncated: cleaner.flags(steps.truncated),
    tsNs: cleaner.times(steps.tsNs, arrivalNs),
    agentId: cleaner.labels(steps.agentId),
    workerId: cleaner.labels(steps.workerId),
    policyLabel: cleaner.labels(steps.policyLabel),
    backend: cleaner.labels(steps.backend),
    renderHintJson: cleaner.texts(steps.renderHintJson),
    renderPayloadJson: cleaner.texts(steps.renderPayloadJson),
    frameRef: cleaner.texts(steps.frameRef),
    payloadVersion: cleaner.integers(steps.payloadVersion),
    episodeSeed: cleaner.integers(steps.episodeSeed),
    infoJson: cleaner.texts(steps.infoJson),
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
    actionJson: columns.actionJson?.[i] ?? "",
    observationJson: columns.observationJson?.[i] ?? "",
    reward: columns.reward?.[i] ?? 0,
    terminated: columns.terminated?.[i] === 1,
    truncated: columns.truncated?.[i] === 1,
    tsNs: columns.tsNs[i]!,
    agentId: labelAt(columns.agentId, i),
    workerId: labelAt(columns.workerId, i),
    policyLabel: labelAt(columns.policyLabel, i),
    backend: labelAt(columns.backend, i),
    renderHintJson: columns.renderHintJson?.[i] ?? "",
    renderPayloadJson: columns.renderPayloadJson?.[i] ?? "",
    frameRef: columns.frameRef?.[i] ?? "",
    payloadVersion: columns.payloadVersion?.[i] ?? 0,
    episodeSeed: columns.episodeSeed?.[i] ?? 0,
    infoJson: columns.infoJson?.[i] ?? "",
  };
}

/** Length of row `i`'s texts. */
export function stepTextLength(columns: CleanSteps, i: number): number {
  return (columns.actionJson?.[i]?.length ?? 0) +
    (columns.observationJson?.[i]?.length ?? 0) +
    (columns.renderHintJson?.[i]?.length ?? 0) +
    (columns.renderPayloadJson?.[i]?.length ?? 0) +
    (columns.frameRef?.[i]?.length ?? 0) +
    (columns.infoJson?.[i]?.length ?? 0);
}
