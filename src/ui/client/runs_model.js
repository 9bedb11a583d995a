// @ts-check
/** All runs in memory, and the ones to show in which order. Pure: drawing is elsewhere. */
import { elapsed } from "./format.js";
import { STATES } from "./states.js";
/** @typedef {import("../shapes.ts").RunLine} RunLine */
/** @typedef {{states: Set<string>, text: string, tag: string}} Filter */

/** @type {Record<string, (r: RunLine, now: number) => number | string>} */
export const SORT_KEYS = {
  created: (r) => r.created_at,
  state: (r) => STATES.indexOf(r.state),
  name: (r) => r.name.toLowerCase(),
  attempt: (r) => r.attempt,
  queue: (r) => r.queue_position || Infinity,
  gpus: (r) => r.gpus.length || r.gpus_requested,
  elapsed: (r, now) => elapsed(r, now) ?? -1,
  steps: (r) => r.steps,
  rate: (r) => r.steps_per_second,
  reward: (r) => r.mean_reward_100 ?? -Infinity,
  record: (r) => r.last_record_at ?? -Infinity,
  backlog: (r) => r.backlog_bytes,
  outcome: (r) => r.reason ?? r.outcome ?? "",
};

export class RunsModel {
  /** @type {Map<string, RunLine>} */
  runs = new Map();
  /** @type {Filter} */
  filter = { states: new Set(), text: "", tag: "" };
  sort = "created";
  /** @type {1 | -1} */
  direction = -1;

  /** @param {RunLine[]} lines */
  put(lines) {
    for (const line of lines) this.runs.set(line.run_id, line);
  }

  /** Runs that pass the filter, in order. @param {number} now @returns {RunLine[]} */
  shown(now) {
    const { states, text, tag } = this.filter;
    const wanted = text.trim().toLowerCase();
    const key = SORT_KEYS[this.sort] ?? ((/** @type {RunLine} */ r) => r.created_at);
    /** @type {[number | string, RunLine][]} */
    const passing = [];
    for (const run of this.runs.values()) {
      if (states.size > 0 && !states.has(run.state)) continue;
      if (tag !== "" && !run.tags.includes(tag)) continue;
      if (wanted !== "" && !run.name.toLowerCase().includes(wanted) && !run.run_id.toLowerCase().startsWith(wanted)) {
        continue;
      }
      passing.push([key(run, now), run]);
    }
    const d = this.direction;
    passing.sort(([a, x], [b, y]) =>
      a < b ? -d : a > b ? d : y.created_at - x.created_at || (x.run_id < y.run_id ? 1 : -1)
    );
    return passing.map(([, run]) => run);
  }

  /** @returns {Map<string, number>} */
  countByState() {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const { state } of this.runs.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    return counts;
  }

  /** @returns {string[]} */
  tags() {
    const tags = new Set();
    for (const run of this.runs.values()) for (const tag of run.tags) tags.add(tag);
    return [...tags].sort();
  }
}
