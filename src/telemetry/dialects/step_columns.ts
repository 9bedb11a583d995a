/** Steps as columns, the form in which they travel and are stored (src/telemetry/batch.ts). */
import type { StepColumns, StepRecord } from "../batch.ts";
import { numberOnWire } from "./episode.ts";

/** A column of a batch. It takes up nothing before a row differs from the default. */
class Column<T> {
  #values: T[] | undefined;
  readonly #default: T;

  constructor(standard: T) {
    this.#default = standard;
  }

  /** @param row how many were added before */
  add(row: number, value: T): void {
    if (this.#values === undefined) {
      if (value === this.#default) return;
      this.#values = [];
      for (let i = 0; i < row; i++) this.#values.push(this.#default);
    }
    this.#values.push(value);
  }

  take(): T[] | undefined {
    const values = this.#values;
    this.#values = undefined;
    return values;
  }
}

/** A column of texts of which a batch mostly has one. */
class LabelColumn {
  #first = "";
  readonly #others = new Column<string | undefined>(undefined);

  add(row: number, label: string): void {
    if (row === 0) this.#first = label;
    this.#others.add(row, label === this.#first ? undefined : label);
  }

  /** The one text of all rows, or one for each; undefined when there is none. */
  take(): string[] | string | undefined {
    const first = this.#first;
    const others = this.#others.take();
    if (others !== undefined) return others.map((label) => label ?? first);
    return first === "" ? undefined : first;
  }
}

export class StepColumnsBuilder {
  #n = 0;
  readonly #episode = new Column(0);
  readonly #step = new Column(0);
  readonly #reward = new Column<number | string>(0);
  readonly #terminated = new Column(0);
  readonly #truncated = new Column(0);
  readonly #tsNs = new Column("");
  readonly #agentId = new LabelColumn();
  readonly #workerId = new LabelColumn();
  readonly #policyLabel = new LabelColumn();
  readonly #backend = new LabelColumn();
  readonly #actionJson = new Column("");
  readonly #observationJson = new Column("");
  readonly #renderHintJson = new Column("");
  readonly #renderPayloadJson = new Column("");
  readonly #frameRef = new Column("");
  readonly #payloadVersion = new Column(0);
  readonly #episodeSeed = new Column(0);
  readonly #infoJson = new Column("");

  get size(): number {
    return this.#n;
  }

  add(step: StepRecord): void {
    const row = this.#n++;
    this.#episode.add(row, step.episode);
    this.#step.add(row, step.step);
    this.#reward.add(row, numberOnWire(step.reward));
    this.#terminated.add(row, step.terminated ? 1 : 0);
    this.#truncated.add(row, step.truncated ? 1 : 0);
    this.#tsNs.add(row, step.tsNs);
    this.#agentId.add(row, step.agentId);
    this.#workerId.add(row, step.workerId);
    this.#policyLabel.add(row, step.policyLabel);
    this.#backend.add(row, step.backend);
    this.#actionJson.add(row, step.actionJson);
    this.#observationJson.add(row, step.observationJson);
    this.#renderHintJson.add(row, step.renderHintJson);
    this.#renderPayloadJson.add(row, step.renderPayloadJson);
    this.#frameRef.add(row, step.frameRef);
    this.#payloadVersion.add(row, step.payloadVersion);
    this.#episodeSeed.add(row, step.episodeSeed);
    this.#infoJson.add(row, step.infoJson);
  }

  /** The columns of what was added since the last call: without those that hold only defaults, and with one text for a
   * label that all rows share. */
  take(): StepColumns {
    const n = this.#n;
    this.#n = 0;
    const columns: StepColumns = {
      n,
      episode: this.#episode.take(),
      step: this.#step.take(),
      reward: this.#reward.take(),
      terminated: this.#terminated.take(),
      truncated: this.#truncated.take(),
      tsNs: this.#tsNs.take(),
      agentId: this.#agentId.take(),
      workerId: this.#workerId.take(),
      policyLabel: this.#policyLabel.take(),
      backend: this.#backend.take(),
      actionJson: this.#actionJson.take(),
      observationJson: this.#observationJson.take(),
      renderHintJson: this.#renderHintJson.take(),
      renderPayloadJson: this.#renderPayloadJson.take(),
      frameRef: this.#frameRef.take(),
      payloadVersion: this.#payloadVersion.take(),
      episodeSeed: this.#episodeSeed.take(),
      infoJson: this.#infoJson.take(),
    };
    return Object.fromEntries(Object.entries(columns).filter(([, column]) => column !== undefined)) as
      & Record<string, unknown>
      & StepColumns;
  }
}
