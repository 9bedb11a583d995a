/** Parses the output of squeue, sacct and sinfo. Pure. */
import type { EndKind, Sighting } from "../engine/launcher.ts";

/**
 * Id, name, state, submit time, (expected) start, nodes, reason; times by SLURM_TIME_FORMAT=%s. The
 * reason may contain the separator.
 */
export const SQUEUE_FORMAT = "%i|%j|%T|%V|%S|%N|%r";

/** The same for sacct. */
export const SACCT_FORMAT = "JobIDRaw,JobName,State,Submit,Start,NodeList,Reason";

const ENDS: Record<string, EndKind> = {
  COMPLETED: "finished",
  FAILED: "finished",
  CANCELLED: "job_cancelled",
  REVOKED: "job_cancelled",
  TIMEOUT: "time_limit",
  DEADLINE: "time_limit",
  PREEMPTED: "preempted",
  NODE_FAIL: "node_fail",
  BOOT_FAIL: "node_fail",
  OUT_OF_MEMORY: "out_of_memory",
};
const QUEUED = [
  ...["PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"],
  ...["LAUNCH_FAILED", "RECONFIG_FAIL"],
];
/** A job has processes until COMPLETING is over. */
const RUNNING = [
  ...["RUNNING", "CONFIGURING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "EXPEDITING"],
  ...["POWER_UP_NODE", "UPDATE_DB"],
];
/** Its processes are stopped by a signal. */
const SUSPENDED = ["SUSPENDED", "STOPPED"];

/**
 * @param silent nodes that do not answer Slurm: processes there may still run, whatever Slurm says
 * of the job
 */
export function sightingsOf(output: string, silent: ReadonlySet<string> = new Set()): Sighting[] {
  return output.split("\n").filter((line) => line !== "").map((line) => sightingOf(line, silent));
}

/**
 * Lines of sacct that report an end: a job that ran when its controller was lost is listed as
 * running for ever.
 */
export function endedLines(output: string): string {
  return output.split("\n").flatMap((line) => {
    const [job, name, state = "", submitted, start, nodes = "", ...reason] = line.split("|");
    // "CANCELLED by 1000"
    const word = state.split(" ")[0]!;
    if (ENDS[word] === undefined) return [];
    return [
      [job, name, word, submitted, start, nodes === "None assigned" ? "" : nodes, ...reason].join(
        "|",
      ),
    ];
  }).join("\n");
}

function sightingOf(line: string, silent: ReadonlySet<string>): Sighting {
  const [job = "", name = "", state = "", submitted, start, nodeList = "", ...reason] = line.split(
    "|",
  );
  const nodes = expandNodes(nodeList);
  return { job, name, submittedAt: milliseconds(submitted) ?? 0, nodes, state: stateOf() };

  function stateOf(): Sighting["state"] {
    if (QUEUED.includes(state)) {
      const why = reason.join("|");
      return { t: "queued", reason: why === "None" ? "" : why, expectedStart: milliseconds(start) };
    }
    const kind = ENDS[state];
    if (kind === undefined) return { t: "running", held: heldBy(state, reason.join("|")) };
    const proven = kind === "finished" || !nodes.some((node) => silent.has(node));
    return { t: "ended", end: { kind, proven, text: state } };
  }
}

/** Why a job that is neither queued nor ended may stand still. */
function heldBy(state: string, reason: string): string | undefined {
  if (RUNNING.includes(state)) return undefined;
  const why = reason === "None" || reason === "" ? "" : `, ${reason}`;
  if (SUSPENDED.includes(state)) {
    return `suspended: Slurm has stopped the job (${state}${why}); its limits of time wait`;
  }
  return `in a state that this version does not know: ${state}${why}; its limits of time wait`;
}

function milliseconds(text: string | undefined): number | null {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) * 1000 : null;
}

/** Whether Slurm itself has ended a job, so that it matters whether the node answers. */
export function needsNodes(jobs: readonly Sighting[]): boolean {
  return jobs.some(({ state }) => state.t === "ended" && state.end.kind !== "finished");
}

/** Nodes that do not answer, from `sinfo -h -N -o %N|%T`: their state ends with a star. */
export function silentNodes(output: string): Set<string> {
  const lines = output.split("\n").map((line) => line.split("|"));
  return new Set(lines.flatMap(([node, state]) => node && state?.endsWith("*") ? [node] : []));
}

/** Expands "n1,gpu[01-03,7]" to node names. */
function expandNodes(list: string): string[] {
  const nodes: string[] = [];
  for (
    const [, prefix, ranges, suffix] of list.matchAll(/([^,[\]]+)(?:\[([^\]]*)\]([^,[\]]*))?/g)
  ) {
    if (ranges === undefined) {
      nodes.push(prefix!);
      continue;
    }
    for (const range of ranges.split(",")) {
      const [first = "", last = first] = range.split("-");
      for (let n = Number(first); n <= Number(last); n++) {
        nodes.push(`${prefix}${String(n).padStart(first.length, "0")}${suffix}`);
      }
    }
  }
  return nodes;
}
