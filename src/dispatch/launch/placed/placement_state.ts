/** What follows from what an engine says of a placement. Pure; placer.ts performs it. */
import type { Placement } from "../../../registry/types.ts";
import type { JobEnd, Sighting } from "../launcher.ts";

/** A job that the engine does not name in so many answers, for so long, is forgotten: an answer may miss a new job. */
export const FORGOTTEN = { answers: 3, ms: 5000 } as const;

/** What is known of a placement's job, from all answers of the engine so far. */
export type Job =
  /** Nothing yet, or the engine does not answer, or has missed the job for a moment. */
  | { readonly t: "unknown" }
  | { readonly t: "queued" }
  | { readonly t: "running" }
  | { readonly t: "ended"; readonly end: JobEnd }
  | { readonly t: "forgotten" };

export interface Seen {
  /** The placement as it is now known. */
  placement: Placement;
  job: Job;
  /** Further jobs of this name that have not ended: they must not run. */
  strays: Sighting[];
}

/**
 * @param sightings the engine's jobs of the placement's name
 * @param missed how often, and for how long, answers have not named the job, this one included
 */
export function see(before: Placement, sightings: readonly Sighting[], missed: { answers: number; ms: number }): Seen {
  const mine = ofPlacement(before, sightings);
  const strays = sightings.filter((one) => one !== mine && one.state.t !== "ended");
  if (mine === undefined) {
    const forgotten = missed.answers >= FORGOTTEN.answers && missed.ms >= FORGOTTEN.ms;
    return { placement: before, job: { t: forgotten ? "forgotten" : "unknown" }, strays };
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
      // An engine has put a job back into its queue, although it must not: what has run once does not run again.
      if (before.phase === "running") return { placement: known, job: { t: "running" }, strays };
      return {
        placement: { ...known, phase: "queued", waitingFor: state.reason, expectedStart: state.expectedStart },
        job: { t: "queued" },
        strays,
      };
    case "running":
      return {
        placement: { ...known, phase: "running", waitingFor: "", expectedStart: null },
        job: { t: "running" },
        strays,
      };
    case "ended":
      return {
        placement: { ...known, end: state.end.kind, waitingFor: "", expectedStart: null },
        job: { t: "ended", end: state.end },
        strays,
      };
  }
}

/** By the id, once that is known, else the one that was submitted first. An id with another submit time is another job. */
function ofPlacement({ job, submittedAt }: Placement, sightings: readonly Sighting[]): Sighting | undefined {
  if (job !== null) {
    return sightings.find((one) => one.job === job && (submittedAt === null || one.submittedAt === submittedAt));
  }
  return sightings.toSorted((a, b) => a.submittedAt - b.submittedAt || Number(a.job) - Number(b.job))[0];
}

export type Step =
  | { do: "nothing" }
  | { do: "launch" }
  /** Under another name: the engine has lost the job, and no worker of it was started. */
  | { do: "launch_again" }
  /** The job runs, or has ended: the attempt begins, and ends by what is known. */
  | { do: "begin" }
  | { do: "stop" }
  /** The run was cancelled, and the engine has no job of it. */
  | { do: "cancelled"; reason: string | null };

/**
 * What to do about a run that is INIT: no proxy of it has been welcomed, so that no worker of it was ever started.
 * @param asked the engine may have been asked for the job
 */
export function nextStep(
  { phase }: Placement,
  job: Job,
  { cancelRequested, asked }: { cancelRequested: boolean; asked: boolean },
): Step {
  if (cancelRequested) {
    const gone = job.t === "ended" || job.t === "forgotten" || !asked;
    return gone ? { do: "cancelled", reason: null } : { do: "stop" };
  }
  switch (job.t) {
    case "unknown":
      return { do: phase === "intended" ? "launch" : "nothing" };
    case "queued":
      return { do: "nothing" };
    case "running":
      return { do: "begin" };
    case "ended":
      return job.end.kind === "job_cancelled" ? { do: "cancelled", reason: "job_cancelled" } : { do: "begin" };
    case "forgotten":
      return { do: phase === "intended" ? "launch" : "launch_again" };
  }
}

/** `mosaic-RUN-ATTEMPT`, and `.2` and so on for further tries. */
export function jobName({ runId, attempt, tries }: { runId: string; attempt: number; tries: number }): string {
  return `mosaic-${runId}-${attempt}${tries === 1 ? "" : `.${tries}`}`;
}

export function readJobName(name: string): { runId: string; attempt: number; tries: number } | undefined {
  const [, runId, attempt, tries] = /^mosaic-(.+)-(\d+)(?:\.(\d+))?$/.exec(name) ?? [];
  return runId === undefined ? undefined : { runId, attempt: Number(attempt), tries: Number(tries ?? 1) };
}
