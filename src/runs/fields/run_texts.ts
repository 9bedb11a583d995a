/** What terminal and page say of a run: figures and texts derived from its JSON. Pure. */
import { ago, count } from "../../base/text/format.ts";
import { oneNumber } from "../../records/objective.ts";
import { progressText } from "./progress.ts";
import type { RunJson } from "./run_types.ts";

/** Unix milliseconds of a time in JSON. */
export function msOf(time: string): number;
export function msOf(time: string | null): number | null;
export function msOf(time: string | null): number | null {
  return time === null ? null : Date.parse(time);
}

/** Milliseconds that the current (or last) attempt has run; null before its start. */
export function elapsedMs(run: RunJson, now: number): number | null {
  const start = msOf(run.started_at);
  return start === null ? null : Math.max(0, (msOf(run.finished_at) ?? now) - start);
}

/** Journal bytes not yet stored. */
export function backlog(run: RunJson): number {
  return Math.max(0, run.telemetry.journal_size - run.telemetry.journal_position);
}

/** The most relevant detail for the run's state: queue position, reason or progress. */
export function note(run: RunJson, now: number): string {
  if (run.state === "INIT") {
    const place = run.queue_position === null ? "" : `#${run.queue_position} in the queue`;
    const what = run.waiting_for === null ? "" : `waits for ${run.waiting_for}`;
    return [place, what].filter((t) => t !== "").join(", ");
  }
  if (run.outcome !== null) return run.outcome === "succeeded" ? "" : run.reason ?? run.outcome;
  if (run.cancel_requested) return "being cancelled";
  if (run.waiting_for !== null) return `waits for ${run.waiting_for}`;
  // It prints, but nothing of that is telemetry.
  if (run.state === "READY" && run.telemetry.last_output_at !== null) {
    return `no telemetry; last output ${ago(msOf(run.telemetry.last_output_at), now)}`;
  }
  // The engine doubts that the job is alive; its proxy may nevertheless be connected.
  if (run.placement?.waiting_for) return run.placement.waiting_for;
  const progress = run.max_steps === null ? "" : progressText(progressOf(run));
  const where = run.placement === null ? "" : onNodes(run.placement.nodes);
  return [progress, run.state === "PAUSED" ? run.reason ?? "" : "", where].filter((t) => t !== "").join(" ");
}

/** "on n1", "on n1 and 3 more". */
function onNodes([first, ...more]: readonly string[]): string {
  return first === undefined ? "" : `on ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** Recorded steps, or the highest step of a metric: most programs record no steps. */
export function stepsOf({ telemetry }: RunJson): number {
  return Math.max(telemetry.steps, telemetry.told_step);
}

/** The chosen metric; else the mean of the last 100 episodes, or of a metric: most programs record no single episodes. */
export function rewardOf({ telemetry }: RunJson): number | null {
  return oneNumber(telemetry.objective, telemetry.mean_reward_100, telemetry.told_reward);
}

/** "244 (44 overwritten)": all recorded ones, and how many of them a later attempt recorded again. */
export function withOverwritten(n: number, overwritten: number): string {
  return count(n) + (overwritten === 0 ? "" : ` (${count(overwritten)} overwritten)`);
}

export function progressOf(run: RunJson) {
  const { telemetry } = run;
  return {
    state: run.state,
    steps: Math.max(telemetry.steps - telemetry.overwritten_steps, telemetry.told_step),
    maxSteps: run.max_steps ?? 0,
    stepsPerSecond: telemetry.steps_per_second,
  };
}

/** If the last record of an EXECUTING run is older than this, the run is marked. */
const STALE_MS = 60_000;
export function isStale({ state, telemetry }: RunJson, now: number): boolean {
  const last = msOf(telemetry.last_record_at);
  return state === "EXECUTING" && last !== null && now - last > STALE_MS;
}

/** For a placed run the node's GPUs, else the host's slots. */
export function gpusOf({ gpu_slots, placement }: RunJson): readonly (number | string)[] {
  return placement?.gpus ?? gpu_slots;
}
