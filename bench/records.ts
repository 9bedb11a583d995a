/**
 * The records that are measured with: documented-dialect steps, as lines and as a proxy's columns.
 */
import type { IngestBatch } from "../src/records/ingest_batch.ts";
import type { StepColumns } from "../src/gen/records/record_types.ts";

/** Shape of the steps of a run. */
export interface Shape {
  /** Length of the observation's JSON; 0: four numbers, as in CartPole. */
  observationBytes: number;
}

function observation(i: number, shape: Shape): string {
  if (shape.observationBytes > 0) return `"${"x".repeat(Math.max(1, shape.observationBytes - 2))}"`;
  return `[${((i % 997) / 499 - 1).toFixed(6)},-0.012345,${((i % 131) / 997).toFixed(6)},0.043210]`;
}

/** Lines as bench/worker.awk prints them. */
export function stepLines(n: number, shape: Shape): string[] {
  return Array.from(
    { length: n },
    (_, i) =>
      `{"event_type":"step","run_id":"bench","episode":${Math.floor(i / 200)},"step_index":${
        i % 200
      },"action":${i % 2}` +
      `,"observation":${observation(i, shape)},"reward":1.0,"terminated":false,"truncated":false}`,
  );
}

export function stepColumns(start: number, n: number, shape: Shape): StepColumns {
  const index = Array.from({ length: n }, (_, i) => start + i);
  return {
    n,
    episode: index.map((i) => Math.floor(i / 200)),
    step: index.map((i) => i % 200),
    reward: index.map(() => 1),
    actionJson: index.map((i) => String(i % 2)),
    observationJson: index.map((i) => observation(i, shape)),
    agentId: "agent_1",
  };
}

export function stepBatch(from: number, to: number, steps: StepColumns): IngestBatch {
  return {
    from,
    to,
    steps,
    episodes: [],
    events: [],
    otherLines: 0,
    malformedLines: 0,
    violations: {},
  };
}

/** A fresh copy, as from JSON.parse: batches share nothing. */
export function asReceived(steps: StepColumns): StepColumns {
  return JSON.parse(JSON.stringify(steps));
}
