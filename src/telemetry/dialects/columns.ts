/** Steps as columns, the form in which they travel and are stored (src/telemetry/batch.ts). */
import type { StepColumns, StepRecord } from "../batch.ts";
import { numberOnWire } from "./episode.ts";

type Numbers = "episode" | "step" | "payloadVersion" | "episodeSeed";
type Flags = "terminated" | "truncated";
type Texts =
  | "tsNs"
  | "actionJson"
  | "observationJson"
  | "renderHintJson"
  | "renderPayloadJson"
  | "frameRef"
  | "infoJson";
type Labels = "agentId" | "workerId" | "policyLabel" | "backend";

const NUMBERS: Numbers[] = ["episode", "step", "payloadVersion", "episodeSeed"];
const FLAGS: Flags[] = ["terminated", "truncated"];
const TEXTS: Texts[] = [
  "tsNs",
  "actionJson",
  "observationJson",
  "renderHintJson",
  "renderPayloadJson",
  "frameRef",
  "infoJson",
];
const LABELS: Labels[] = ["agentId", "workerId", "policyLabel", "backend"];

export class StepColumnsBuilder {
  #steps: StepRecord[] = [];

  get size(): number {
    return this.#steps.length;
  }

  add(step: StepRecord): void {
    this.#steps.push(step);
  }

  /** The columns of what was added since the last call: without those that hold only defaults, and with one text for a
   * label that all rows share. */
  take(): StepColumns {
    const steps = this.#steps;
    this.#steps = [];
    const columns: StepColumns = { n: steps.length };
    for (const name of NUMBERS) {
      if (steps.some((s) => s[name] !== 0)) columns[name] = steps.map((s) => s[name]);
    }
    if (steps.some((s) => s.reward !== 0)) columns.reward = steps.map((s) => numberOnWire(s.reward));
    for (const name of FLAGS) {
      if (steps.some((s) => s[name])) columns[name] = steps.map((s) => s[name] ? 1 : 0);
    }
    for (const name of TEXTS) {
      if (steps.some((s) => s[name] !== "")) columns[name] = steps.map((s) => s[name]);
    }
    for (const name of LABELS) {
      const first = steps[0]?.[name] ?? "";
      if (steps.some((s) => s[name] !== first)) columns[name] = steps.map((s) => s[name]);
      else if (first !== "") columns[name] = first;
    }
    return columns;
  }
}
