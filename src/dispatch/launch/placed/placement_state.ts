/**
 * Decides what to do about a placement by what an engine says of it. Pure; placer.ts performs it.
 */
import { isEnded } from "../../../registry/lifecycle/lifecycle.ts";
import type { Placement, RunRow } from "../../../registry/row_types.ts";
import type { JobEnd, Sighting } from "../engine/launcher.ts";

/**
 * A job that this many answers over this time do not list is forgotten: a single answer may miss a
 * new job.
 */
export const FORGOTTEN = { answers: 3, ms: 5000 } as const;

/** What is known of a placement's job, from all answers of the engine so far. */
export type Job =
  /** The engine has not answered yet, or has not listed the job for a moment. */
  | { readonly t: "unknown" }
  | { readonly t: "queued" }
  /** @property held see Sighting */
  | { readonly t: "running"; readonly held?: string | undefined }
  | { readonly t: "ended"; readonly end: JobEnd }
  | { readonly t: "forgotten" };

/** What the daemon has done for a placement. */
export type Stage =
  /** It is committed; no job was requested from the engine. */
  | { readonly t: "intended" }
  /** A job was requested, so the engine may have it. */
  | { readonly t: "requested" }
  /** The attempt is over, and its job must end. Milliseconds of a monotonic clock. */
  | { readonly t: "released"; readonly at: number };

/**
 * A job whose attempt is over has this long to end by itself, because its proxy exits after its
 * last report.
 */
const LEAVE_MS = 20_000;

export interface Seen {
  /** The placement as it is now known. */
  placement: Placement;
  job: Job;
  /** Further jobs of this name that have not ended: they must not run. */
  duplicates: Sighting[];
}

/**
 * @param sightings the engine's jobs of the placement's name
 * @param missed how often, and for how long, answers have not listed the job, this one included
 */
export function applySightings(
  before: Placement,
  sightings: readonly Sighting[],
  missed: { answers: number; ms: number },
): Seen {
  const mine = ofPlacement(before, sightings);
  const duplicates = sightings.filter((one) => one !== mine && one.state.t !== "ended");
  if (mine === undefined) {
    const forgotten = missed.answers >= FORGOTTEN.answers && missed.ms >= FORGOTTEN.ms;
    return { placement: before, job: { t: forgotten ? "forgotten" : "unknown" }, duplicates };
  }
  const { state } = mine;
  const known = {
    ...before,
    job: mine.job,
    submittedAt: mine.submittedAt,
    nodes: mine.nodes.length > 0 ? mine.nodes : before.nodes,
  };
  switch (state.t) {
    case "queued":
      // The engine has requeued a job, although it must not: a job that has run must not run again.
      if (before.phase === "running") {
        return { placement: known, job: { t: "running" }, duplicates };
      }
      return {
        placement: {
          ...known,
          phase: "queued",
          waitingFor: state.reason,
          expectedStart: state.expectedStart,
        },
        job: { t: "queued" },
        duplicates,
      };
    case "running":
      return {
        placement: {
          ...known,
          phase: "running",
          waitingFor: state.held ?? "",
          expectedStart: null,
        },
        job: { t: "running", held: state.held },
        duplicates,
      };
    case "ended":
      return {
        placement: { ...known, end: state.end.kind, waitingFor: "", expectedStart: null },
        job: { t: "ended", end: state.end },
        duplicates,
      };
  }
}

/**
 * A node that was away answers before it has ended the processes of jobs that its engine had given
 * up meanwhile: they get SIGTERM, and SIGKILL after the engine's grace period (Slurm's KillWait, 30
 * s by default). So such an end is proven only after the node has answered for this time.
 */
export const NODE_SETTLE_MS = 45_000;

/**
 * @param since when this daemon first heard of the end with its proof @param doubted the node was
 * seen away
 */
export function settled(
  job: Job,
  { since, doubted }: { since: number; doubted: boolean },
  now: number,
  ms: number,
): Job {
  if (job.t !== "ended" || !job.end.proven || (job.end.kind !== "node_fail" && !doubted)) {
    return job;
  }
  return now - since >= ms ? job : { t: "ended", end: { ...job.end, proven: false, recent: true } };
}

/**
 * By the id if it is known, else the one submitted first. The same id with another submit time is
 * another job.
 */
function ofPlacement(
  { job, submittedAt }: Placement,
  sightings: readonly Sighting[],
): Sighting | undefined {
  if (job !== null) {
    return sightings.find((one) =>
      one.job === job && (submittedAt === null || one.submittedAt === submittedAt)
    );
  }
  return sightings.toSorted((a, b) =>
    a.submittedAt - b.submittedAt || Number(a.job) - Number(b.job)
  )[0];
}

export type Step =
  | { do: "nothing" }
  | { do: "launch" }
  /** Under another name: the engine has lost the job, and no worker of it was started. */
  | { do: "launch_again" }
  /** The job runs, or has ended: the attempt begins, and ends by what is known. */
  | { do: "begin" }
  | { do: "stop"; how: "graceful" | "now" }
  /** The run was cancelled, or its deadline has passed, and the engine has no job of it. */
  | { do: "cancelled"; reason: string | null }
  /** The attempt is over: its job is observed until it has ended. */
  | { do: "release" }
  | { do: "forget" };

/** What to do about a placement. @param row the run; undefined if it was deleted */
export function stepOf(
  { placement, job, stage }: { placement: Placement; job: Job; stage: Stage },
  row: Pick<RunRow, "state" | "attempt" | "cancelRequestedAt" | "faultRequested"> | undefined,
  now: number,
): Step {
  if (stage.t === "released") {
    if (job.t === "ended" || job.t === "forgotten") return { do: "forget" };
    return now - stage.at > LEAVE_MS ? { do: "stop", how: "now" } : { do: "nothing" };
  }
  if (row === undefined || row.attempt !== placement.attempt || isEnded(row.state)) {
    return { do: "release" };
  }
  if (row.state !== "INIT") return { do: "nothing" };
  return nextStep(placement, job, {
    cancelRequested: row.cancelRequestedAt !== null || row.faultRequested !== null,
    requested: stage.t === "requested",
  });
}

/**
 * What to do about an INIT run: no proxy of it was welcomed, so no worker of it was ever started.
 * @param requested a job may have been requested from the engine
 */
export function nextStep(
  { phase }: Placement,
  job: Job,
  { cancelRequested, requested }: { cancelRequested: boolean; requested: boolean },
): Step {
  if (cancelRequested) {
    const gone = job.t === "ended" || job.t === "forgotten" || !requested;
    return gone ? { do: "cancelled", reason: null } : { do: "stop", how: "graceful" };
  }
  switch (job.t) {
    case "unknown":
      return { do: phase === "intended" ? "launch" : "nothing" };
    case "queued":
      return { do: "nothing" };
    case "running":
      return { do: "begin" };
    case "ended":
      return job.end.kind === "job_cancelled"
        ? { do: "cancelled", reason: "job_cancelled" }
        : { do: "begin" };
    case "forgotten":
      return { do: phase === "intended" ? "launch" : "launch_again" };
  }
}

/** Whether the proxy of a job may serve the attempt. */
export type Admission =
  | "admitted"
  /** The placement is known to have another job. */
  | "another_job"
  /** No worker was started yet, and none is to be. */
  | "being_stopped";

/** @param job the proxy's, by its own word */
export function admissionOf(
  { placement, stage }: { placement: Placement; stage: Stage },
  row: Pick<RunRow, "state" | "cancelRequestedAt" | "faultRequested">,
  job: string,
): Admission {
  if (placement.job !== null && placement.job !== job) return "another_job";
  const stopped = row.cancelRequestedAt !== null || row.faultRequested !== null ||
    stage.t === "released";
  const mayStartWorker = row.state === "INIT" || row.state === "HANDSHAKE";
  return stopped && mayStartWorker ? "being_stopped" : "admitted";
}

/** An end without proof is shown as such, for as long as it lasts; undefined: there is no doubt. */
export function doubtOf(job: Job, { phase, nodes }: Placement): string | undefined {
  if (phase !== "running") return undefined;
  if (job.t === "forgotten") {
    return "doubtful: the engine knows the job no more, and its proxy has not reported";
  }
  if (job.t !== "ended" || job.end.proven) return undefined;
  const where = nodes.join(", ");
  return job.end.recent
    ? `doubtful: ${job.end.text}, and ${where} answers again only just: the worker may still be ending`
    : `doubtful: ${job.end.text}, and ${where} does not answer: the worker may run on`;
}

/** `mosaic-RUN-ATTEMPT`, and `.2` and so on for further tries. */
export function jobName(
  { runId, attempt, tries }: { runId: string; attempt: number; tries: number },
): string {
  return `mosaic-${runId}-${attempt}${tries === 1 ? "" : `.${tries}`}`;
}

export function readJobName(
  name: string,
): { runId: string; attempt: number; tries: number } | undefined {
  const [, runId, attempt, tries] = /^mosaic-(.+)-(\d+)(?:\.(\d+))?$/.exec(name) ?? [];
  return runId === undefined
    ? undefined
    : { runId, attempt: Number(attempt), tries: Number(tries ?? 1) };
}
