/** All runs in memory, and the ones to show in which order. Pure: drawing is elsewhere. */
import type { RunLine } from "../page_json.ts";
import { elapsed } from "./format.ts";
import { STATES } from "./states.tsx";

export interface Filter {
  states: Set<string>;
  text: string;
  tag: string;
  kind: string;
}

export const SORT_KEYS: Record<string, (r: RunLine, now: number) => number | string> = {
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
  runs = new Map<string, RunLine>();
  filter: Filter = { states: new Set(), text: "", tag: "", kind: "" };
  sort = "created";
  direction: 1 | -1 = -1;

  /** Ids in the order last shown, good until a run comes, goes, or changes what the order and filters look at. */
  #order: string[] = [];
  #orderedBy = "";
  #changed = true;
  #counts: Map<string, number> | undefined;
  #tags: string[] | undefined;

  put(lines: readonly RunLine[]): void {
    const key = this.#key();
    for (const line of lines) {
      const before = this.runs.get(line.run_id);
      this.runs.set(line.run_id, line);
      if (before === undefined) this.#tags = undefined;
      if (before?.state !== line.state) this.#counts = undefined;
      if (before?.state !== line.state || key(before, 0) !== key(line, 0)) this.#changed = true;
    }
  }

  remove(id: string): void {
    if (!this.runs.delete(id)) return;
    this.#counts = undefined;
    this.#tags = undefined;
    this.#changed = true;
  }

  #key() {
    return SORT_KEYS[this.sort] ?? ((r: RunLine) => r.created_at);
  }

  /** Runs that pass the filter, in order. */
  shown(now: number): RunLine[] {
    const by = JSON.stringify([
      [...this.filter.states],
      this.filter.text,
      this.filter.tag,
      this.filter.kind,
      this.sort,
      this.direction,
    ]);
    // Elapsed times grow without anybody saying so.
    if (this.#changed || by !== this.#orderedBy || this.sort === "elapsed") {
      this.#order = this.#ordered(now);
      this.#orderedBy = by;
      this.#changed = false;
    }
    return this.#order.map((id) => this.runs.get(id)!);
  }

  #ordered(now: number): string[] {
    const { states, text, tag, kind } = this.filter;
    const wanted = text.trim().toLowerCase();
    const key = this.#key();
    const passing: [number | string, RunLine][] = [];
    for (const run of this.runs.values()) {
      if (states.size > 0 && !states.has(run.state)) continue;
      if (kind !== "" && run.is_eval !== (kind === "eval")) continue;
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
    return passing.map(([, run]) => run.run_id);
  }

  countByState(): Map<string, number> {
    if (this.#counts !== undefined) return this.#counts;
    const counts = new Map<string, number>();
    for (const { state } of this.runs.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    return this.#counts = counts;
  }

  hasEvaluations(): boolean {
    for (const { is_eval } of this.runs.values()) if (is_eval) return true;
    return false;
  }

  tags(): string[] {
    if (this.#tags !== undefined) return this.#tags;
    const tags = new Set<string>();
    for (const run of this.runs.values()) for (const tag of run.tags) tags.add(tag);
    return this.#tags = [...tags].sort();
  }
}
