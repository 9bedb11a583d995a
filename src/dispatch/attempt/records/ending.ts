/** Makes the event of a run's end, with a summary. Pure. */
import type { EventToAppend } from "../../../registry/event_kinds.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import { stepsReached } from "../../../records/progress_series.ts";
import type { RunTelemetry } from "../../../records/stored.ts";

/** How far a run is, as in `mosaic list`: if it records no steps or episodes, by its metrics. */
export function summaryOf(telemetry: RunTelemetry) {
  const { episodes, meanReward100, reportedReward } = telemetry;
  return {
    steps: stepsReached(telemetry),
    episodes,
    mean_reward_100: meanReward100,
    ...(meanReward100 === null && reportedReward !== null
      ? { reported_reward: reportedReward.value }
      : {}),
  };
}

/** @param usedMs duration of the attempt, pauses excluded */
export function endedEvent(
  row: RunRow,
  telemetry: RunTelemetry,
  usedMs: number,
): EventToAppend {
  const { placement } = row;
  // A later attempt has another job and other nodes; only this event keeps those of this attempt.
  const place = placement === null ? {} : { job: placement.job, nodes: placement.nodes };
  const summary = { ...summaryOf(telemetry), duration_s: Math.round(usedMs) / 1000, ...place };
  if (row.state === "TERMINATED") return { kind: "completed", data: summary };
  if (row.state === "CANCELLED") {
    return { kind: "cancelled", data: { ...summary, reason: row.reason } };
  }
  return {
    kind: "failed",
    data: {
      ...summary,
      reason: row.reason,
      hint: row.hint,
      exit_code: row.exitCode,
      exit_signal: row.exitSignal,
      stderr_tail: row.stderrTail,
    },
  };
}
