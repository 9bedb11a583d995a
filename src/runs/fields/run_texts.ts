/** What terminal and page say of a run: figures and texts derived from its JSON. Pure. */
import { ago, bytes, count, duration, localTime, number, rate } from "../../base/text/format.ts";
import { oneNumber } from "../../records/objective.ts";
import { notReadNote } from "./not_read_text.ts";
import { progressText } from "./progress.ts";
import { isEnded, shownState } from "./lifecycle_states.ts";
import type { RunDetailJson, RunJson } from "./run_types.ts";

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

/**
 * Milliseconds that all attempts ran, without the waits between them. (Step counts include all
 * attempts, too.)
 */
export function workedMs({ transitions }: Pick<RunDetailJson, "transitions">, now: number): number {
  return transitions.reduce(
    (sum, { to, at }, i) =>
      to === "INIT" || isEnded(to)
        ? sum
        : sum + Math.max(0, (msOf(transitions[i + 1]?.at ?? null) ?? now) - msOf(at)),
    0,
  );
}

/** Journal bytes not yet stored. */
export function backlog(run: RunJson): number {
  return Math.max(0, run.telemetry.journal_size - run.telemetry.journal_position);
}

/** "#2 in the queue, waits for 2 GPUs" */
export function waitsText(run: RunJson): string {
  const place = run.queue_position === null ? "" : `#${run.queue_position} in the queue`;
  const what = run.waiting_for === null ? "" : `waits for ${run.waiting_for}`;
  return [place, what].filter((t) => t !== "").join(", ");
}

/** "train.py changed since submission"; "" if nothing is known to have changed. */
export function codeChangedText(run: RunJson): string {
  return run.code_changed === null ? "" : `${run.code_changed} changed since submission`;
}

/**
 * The most relevant detail for the run's state; and whether its code is not the one that was
 * submitted.
 */
export function note(run: RunJson, now: number, barWidth = 0): string {
  const within = run.children === 0 ? "" : `${count(run.children)} runs within`;
  const said = [stateNote(run, now, barWidth), within, codeChangedText(run)].filter((text) =>
    text !== ""
  ).join("; ");
  return said === "" ? notReadNote(run.telemetry) : said;
}

/** Queue position, reason or progress, with a bar if it has a width. */
function stateNote(run: RunJson, now: number, barWidth: number): string {
  if (run.outcome !== null) {
    const saysAll = run.outcome === "succeeded" || shownState(run) === "PRUNED";
    return saysAll ? notReadNote(run.telemetry) : run.reason ?? run.outcome;
  }
  if (run.cancel_requested) return "being cancelled";
  if (run.state === "INIT" || run.waiting_for !== null) return waitsText(run);
  if (run.pause_requested && run.state !== "PAUSED") return "being paused";
  // It prints, but nothing of that is telemetry.
  if (run.state === "READY" && run.telemetry.last_output_at !== null) {
    return `no telemetry; last output ${agoText(run.telemetry.last_output_at, now)}`;
  }
  // The engine doubts that the job is alive; its proxy may nevertheless be connected.
  if (run.placement?.waiting_for) return run.placement.waiting_for;
  const progress = run.max_steps === null && run.progress === null
    ? ""
    : progressText(progressOf(run, now), barWidth);
  const where = run.placement === null ? "" : onNodes(run.placement.nodes);
  const said = [progress, run.state === "PAUSED" ? run.reason ?? "" : "", where].filter((t) =>
    t !== ""
  ).join(" ");
  return said === "" ? notReadNote(run.telemetry) : said;
}

/** "on n1", "on n1 and 3 more". */
function onNodes([first, ...more]: readonly string[]): string {
  return first === undefined
    ? ""
    : `on ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** Recorded steps, or the highest step of a metric: most programs record no steps. */
export function stepsOf({ telemetry }: RunJson): number {
  return Math.max(telemetry.steps, telemetry.told_step);
}

/**
 * The chosen metric; else the mean of the last 100 episodes, or of a metric: most programs record
 * no single episodes.
 */
export function rewardOf({ telemetry }: RunJson): number | null {
  return oneNumber(telemetry.objective, telemetry.mean_reward_100, telemetry.reported_reward);
}

/**
 * "244 (44 overwritten)": all recorded ones, and how many of them a later attempt recorded again.
 */
export function withOverwritten(n: number, overwritten: number): string {
  return count(n) + (overwritten === 0 ? "" : ` (${count(overwritten)} overwritten)`);
}

export function progressOf(run: RunJson, now: number) {
  const { telemetry } = run;
  return {
    state: run.state,
    steps: Math.max(telemetry.steps - telemetry.overwritten_steps, telemetry.told_step),
    maxSteps: run.max_steps ?? 0,
    stepsPerSecond: telemetry.steps_per_second,
    part: run.progress,
    elapsedMs: elapsedMs(run, now),
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

/** Empty texts for what is unknown. */
export function agoText(at: string | null, now: number): string {
  return at === null ? "" : ago(msOf(at), now);
}

export function timeText(at: string | null): string {
  return at === null ? "" : localTime(msOf(at));
}

export function elapsedText(run: RunJson, now: number): string {
  const elapsed = elapsedMs(run, now);
  return elapsed === null ? "" : duration(elapsed);
}

/** "" for a run that has ended, or makes no steps. */
export function rateText({ outcome, telemetry }: RunJson): string {
  return outcome !== null || telemetry.steps_per_second === 0
    ? ""
    : rate(telemetry.steps_per_second);
}

export function backlogText(run: RunJson): string {
  return backlog(run) === 0 ? "" : bytes(backlog(run));
}

/** "2/3"; "1" for a run that has one attempt. */
export function attemptText({ attempt, max_attempts }: RunJson): string {
  return max_attempts > 1 || attempt > 1
    ? `${attempt}/${Math.max(attempt, max_attempts)}`
    : String(attempt);
}

/**
 * "0,1", "0 (6.00 GiB, peak 5.10 GiB)" of a run that shares its card, or "wants 2" before it has
 * them.
 */
export function gpusText(run: RunJson): string {
  const held = gpusOf(run);
  const share = shareText(run);
  const peak = share === "" || run.gpu_peak_mb === null ? "" : `, peak ${size(run.gpu_peak_mb)}`;
  const more = share === "" ? "" : ` (${share}${peak})`;
  if (held.length > 0) return `${held.join(",")}${more}`;
  return run.gpus_requested > 0
    ? `${run.outcome === null ? "wants" : "wanted"} ${run.gpus_requested}${more}`
    : "";
}

/** What the run declares of each card, "6.00 GiB" or "25 %"; "": all of it. */
function shareText(
  { gpu_memory_mb, gpu_share }: Pick<RunJson, "gpu_memory_mb" | "gpu_share">,
): string {
  if (gpu_memory_mb !== null) return size(gpu_memory_mb);
  return gpu_share === null ? "" : `${Math.round(gpu_share * 1000) / 10} %`;
}

const size = (mb: number) => bytes(mb * (1 << 20));

/** "6.00 GiB, uses 5.10 GiB"; "25 %" if the card's memory is not known. */
export function gpuShareText(
  { part, memory_mb, used_mb }: { part: number; memory_mb: number | null; used_mb: number | null },
): string {
  const declared = memory_mb === null ? `${Math.round(part * 1000) / 10} %` : size(memory_mb);
  return used_mb === null ? declared : `${declared}, uses ${size(used_mb)}`;
}

/** With the metric, or what it is the mean of. */
export function rewardText({ telemetry }: RunJson): string {
  const { mean_reward_100: mean, reported_reward: metric, objective } = telemetry;
  if (objective !== null) {
    return objective.value === null
      ? `none yet (${objective.name})`
      : `${number(objective.value)} (${objective.name})`;
  }
  if (mean !== null) return `${number(mean)} (mean of the last 100 episodes)`;
  return metric === null ? "" : `${number(metric.value)} (${metric.name})`;
}

export function exitText({ exit_signal, exit_code }: RunJson): string {
  return exit_signal ?? (exit_code === null ? "" : String(exit_code));
}

/** "slurm 17 on n1 (running)". */
export function jobText({ placement }: RunJson): string {
  if (placement === null) return "";
  const { launcher, name, job, nodes, phase, end, waiting_for, expected_start } = placement;
  const where = nodes.length === 0 ? "" : ` on ${nodes.join(", ")}`;
  const start = expected_start === null ? "" : `, expected to start ${timeText(expected_start)}`;
  const why = waiting_for === null ? "" : `: ${waiting_for}`;
  return `${launcher} ${job ?? name}${where} (${end ?? phase}${why}${start})`;
}

/** "worker-1 (pid 17, proxy 16, on n1)". */
export function workerText(run: RunJson): string {
  const pids = [
    run.worker_pid === null ? "" : `pid ${run.worker_pid}`,
    run.proxy_pid === null ? "" : `proxy ${run.proxy_pid}`,
  ].filter((p) => p !== "").join(", ");
  const [node] = run.placement?.nodes ?? [];
  const processes = pids === "" || node === undefined ? pids : `${pids}, on ${node}`;
  if (!run.worker_id) return processes;
  return processes === "" ? run.worker_id : `${run.worker_id} (${processes})`;
}

export function protocolText({ capabilities: c }: RunJson): string {
  return c === null
    ? ""
    : `${c.worker_kind} ${c.proto_version}, ${c.schema_id} v${c.schema_version}`;
}

export function abilitiesText({ capabilities: c }: RunJson): string {
  return [c?.supports_pause ? "pause" : "", c?.supports_checkpoint ? "checkpoints" : ""].filter((
    t,
  ) => t !== "").join(
    ", ",
  );
}
