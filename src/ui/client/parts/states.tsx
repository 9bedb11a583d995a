/** States of a run: their style, and the actions they allow. */
import type { RunLine } from "../../api/page_json.ts";
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

/** If the last record of an EXECUTING run is older than this, the run is marked. */
const STALE_MS = 60_000;
export const isStale = (run: RunLine, now: number): boolean =>
  run.state === "EXECUTING" && run.last_record_at !== null && now - run.last_record_at > STALE_MS;

export function Chip({ state }: { state: string }) {
  return <span class="chip" data-state={state}>{state}</span>;
}

/** `3 EXECUTING, 1 FAULTED`: for a group, in the order of a run's life. */
export function countStates(runs: readonly Pick<RunLine, "state">[]): [state: string, count: number][] {
  return STATES.map((state): [string, number] => [state, runs.filter((r) => r.state === state).length])
    .filter(([, count]) => count > 0);
}

/** The states of a group: one as a word, several as signs with their counts. */
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

/** One line that explains the run's state. @param at now, Unix milliseconds */
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
  // The engine doubts that the job is alive; its proxy may nevertheless be connected.
  return run.placement.waiting_for ??
    [run.reason ?? "", onNodes(run.placement.nodes)].filter((t) => t !== "").join(" ");
}

/** "on n1", "on n1 and 3 more". */
function onNodes([first, ...more]: readonly string[]): string {
  return first === undefined ? "" : `on ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** For a placed run the node's GPUs, else the host's slots. */
export function gpusOf({ gpus, placement }: RunLine): readonly (number | string)[] {
  return placement?.gpus ?? gpus;
}
