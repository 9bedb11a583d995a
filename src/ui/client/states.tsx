/** States of a run: how they look and what may be done in them. */
import type { RunLine } from "../page_json.ts";
import { age } from "./format.ts";

export const STATES: readonly RunLine["state"][] = [
  "INIT",
  "HANDSHAKE",
  "READY",
  "EXECUTING",
  "PAUSED",
  "FAULTED",
  "TERMINATED",
  "CANCELLED",
];
export const isEnded = (run: Pick<RunLine, "state">): boolean => STATES.indexOf(run.state) > STATES.indexOf("PAUSED");

/** A record older than this from a run that executes is marked. */
const STALE_MS = 60_000;
export const isStale = (run: RunLine, now: number): boolean =>
  run.state === "EXECUTING" && run.last_record_at !== null && now - run.last_record_at > STALE_MS;

export function Chip({ state }: { state: string }) {
  return <span class="chip" data-state={state}>{state}</span>;
}

/** `3 EXECUTING, 1 FAULTED`: of a group, in the order of a run's life. */
export function countStates(runs: readonly Pick<RunLine, "state">[]): [state: string, count: number][] {
  return STATES.map((state): [string, number] => [state, runs.filter((r) => r.state === state).length])
    .filter(([, count]) => count > 0);
}

/** The states of a group: one in words, several as signs with how many there are of each. */
export function Chips({ of }: { of: readonly Pick<RunLine, "state">[] }) {
  const counts = countStates(of);
  if (counts.length === 1) return <Chip state={counts[0]![0]} />;
  return (
    <span class="states">
      {counts.map(([state, count]) => (
        <span key={state} class="chip" data-state={state} title={`${count} ${state}`}>
          {count}
          <span class="unseen">{` ${state}`}</span>
        </span>
      ))}
    </span>
  );
}

/** One line on why the run is where it is. @param at now, Unix milliseconds */
export function explanation(run: RunLine, at: number): string {
  if (run.cancel_requested && !isEnded(run)) return "being cancelled";
  if (run.state === "INIT") {
    const place = run.queue_position > 0 ? `#${run.queue_position} in the queue` : "queued";
    return run.waiting_for ? `${place}, waits for ${run.waiting_for}` : place;
  }
  if (run.waiting_for && !isEnded(run)) return `waits for ${run.waiting_for}`;
  if (run.pause_requested && run.state !== "PAUSED" && !isEnded(run)) return "being paused";
  if (run.state === "READY" && run.last_output_at !== null) {
    return `no telemetry, output ${age(run.last_output_at, at)}`;
  }
  if (isEnded(run) || run.placement === null) return run.reason ?? run.outcome ?? "";
  // The engine's doubt about a job whose proxy may be connected all the same.
  return run.placement.waiting_for ??
    [run.reason ?? "", onNodes(run.placement.nodes)].filter((t) => t !== "").join(" ");
}

/** "on n1", "on n1 and 3 more". */
function onNodes([first, ...more]: readonly string[]): string {
  return first === undefined ? "" : `on ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** Those of the node for a run that an engine places, else the host's slots. */
export function gpusOf({ gpus, placement }: RunLine): readonly (number | string)[] {
  return placement?.gpus ?? gpus;
}
