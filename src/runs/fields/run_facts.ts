/**
 * What is said of a single run, for `mosaic show`, `mosaic top` and the page: each fact with its
 * name. Pure.
 */
import { NOT_READ } from "./not_read_text.ts";
import { bytes, count, duration, pathInRun } from "../../base/text/format.ts";
import { progressText } from "./progress.ts";
import {
  abilitiesText,
  agoText,
  backlogText,
  codeChangedText,
  elapsedText,
  exitText,
  gpusText,
  jobText,
  progressOf,
  protocolText,
  rateText,
  rewardText,
  stepsOf,
  timeText,
  waitsText,
  withOverwritten,
  workedMs,
  workerText,
} from "./run_texts.ts";
import type { RunDetailJson } from "./run_types.ts";

/** The page has no config. */
export type FactsOf = Omit<RunDetailJson, "config"> & Partial<Pick<RunDetailJson, "config">>;

export interface FactOptions {
  /** Unix milliseconds. */
  now: number;
  /** Of the bar of progress; 0: none. */
  barWidth?: number;
}

export interface RunFact {
  name: string;
  /** "": it is not shown. */
  text(run: FactsOf, options: FactOptions): string;
}

const counted = (n: number) => n === 0 ? "" : count(n);

export const RUN_FACTS: readonly RunFact[] = [
  { name: "run", text: (r) => r.run_id },
  { name: "within", text: (r) => r.parent ?? "" },
  {
    name: "runs within",
    text: (r) => r.children === 0 ? "" : `${count(r.children)} (list --within ${r.run_id})`,
  },
  { name: "outcome", text: (r) => r.outcome ?? "" },
  { name: "reason", text: (r) => r.reason ?? "" },
  { name: "hint", text: (r) => r.hint ?? "" },
  { name: "exit", text: exitText },
  { name: "waits", text: waitsText },
  {
    name: "progress",
    text: (r, { barWidth, now }) =>
      r.max_steps === null && r.progress === null ? "" : progressText(progressOf(r, now), barWidth),
  },
  {
    name: "attempt",
    text: (r) =>
      r.max_attempts > 1 || r.attempt > 1
        ? `${r.attempt} of ${Math.max(r.attempt, r.max_attempts)}`
        : "",
  },
  { name: "code", text: codeChangedText },
  { name: "tags", text: (r) => r.tags.join(", ") },
  { name: "notes", text: (r) => r.notes.trimEnd().includes("\n") ? "" : r.notes },
  { name: "observes", text: (r) => r.observed.join("\n") },
  { name: "resumed from", text: (r) => pathInRun(r.directory, r.resume_from ?? "") },
  { name: "priority", text: (r) => r.priority === 0 ? "" : String(r.priority) },
  { name: "gpus", text: (r) => gpusText(r) || noGpus(r) },
  {
    name: "gpu memory",
    text: ({ gpu_peak_mb, gpu_memory_mb, gpu_share }) =>
      gpu_peak_mb === null || (gpu_memory_mb ?? gpu_share) !== null
        ? ""
        : `peak ${bytes(gpu_peak_mb * (1 << 20))}`,
  },
  { name: "job", text: jobText },
  { name: "rate limit", text: (r) => r.max_rate_hz === null ? "" : `${r.max_rate_hz} steps/s` },
  { name: "submitted", text: (r) => timeText(r.submitted_at) },
  { name: "started", text: (r) => timeText(r.started_at) },
  { name: "finished", text: (r) => timeText(r.finished_at) },
  {
    name: "elapsed",
    text: (r, { now }) =>
      elapsedText(r, now) + (r.attempt > 1 ? `, all attempts ${duration(workedMs(r, now))}` : ""),
  },
  {
    name: "heartbeat",
    text: (r, { now }) => r.outcome !== null ? "" : agoText(r.last_heartbeat, now),
  },
  { name: "worker", text: workerText },
  { name: "protocol", text: protocolText },
  { name: "supports", text: abilitiesText },
  { name: "directory", text: (r) => r.directory },
  { name: "digest", text: (r) => r.digest },
];

export const TELEMETRY_FACTS: readonly RunFact[] = [
  {
    name: "steps",
    text: (r) => {
      const steps = withOverwritten(stepsOf(r), r.telemetry.overwritten_steps);
      return [steps, rateText(r)].filter((text) => text !== "").join(", ");
    },
  },
  {
    name: "episodes",
    text: ({ telemetry: t }) => withOverwritten(t.episodes, t.overwritten_episodes),
  },
  { name: "reward", text: rewardText },
  { name: "events", text: ({ telemetry }) => counted(telemetry.events) },
  { name: "last record", text: ({ telemetry }, { now }) => agoText(telemetry.last_record_at, now) },
  { name: "last output", text: ({ telemetry }, { now }) => agoText(telemetry.last_output_at, now) },
  {
    name: "journal",
    text: ({ telemetry: t }) => t.journal_size === 0 ? "" : bytes(t.journal_size),
  },
  { name: "backlog", text: backlogText },
  { name: "other lines", text: ({ telemetry }) => counted(telemetry.other_lines) },
  { name: "malformed lines", text: ({ telemetry }) => counted(telemetry.malformed_lines) },
  {
    name: "violations",
    text: ({ telemetry }) =>
      Object.entries(telemetry.violations).filter(([rule]) => !rule.startsWith(NOT_READ))
        .map(([rule, n]) => `${count(n)} × ${rule}`).join("\n"),
  },
];

/** The page has no config: there it is not said of a run that chooses its GPUs itself. */
function noGpus({ config, placement, host_gpus }: FactsOf): string {
  const { CUDA_VISIBLE_DEVICES: chosen } =
    (config as { environment?: Record<string, string> })?.environment ?? {};
  return host_gpus === 0 || chosen || placement !== null
    ? ""
    : `none requested, so it sees none of the host's ${host_gpus}`;
}
