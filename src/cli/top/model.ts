/**
 * State of `mosaic top`, and how keys change it. Pure; src/cli/verbs/host/top.ts executes the
 * actions.
 */
import { ENDED_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { HostJson } from "../../runs/fields/host_json.ts";
import type { RunDetailJson, RunJson } from "../../runs/fields/run_types.ts";
import { elapsedMs, rewardOf } from "../../runs/fields/run_texts.ts";

const SORTS = ["newest", "name", "state", "steps", "rate", "reward", "elapsed"] as const;
export type Sort = typeof SORTS[number];

export interface TopState {
  runs: RunJson[];
  host: HostJson | undefined;
  /** Episode rewards of the visible runs, oldest first. */
  curves: ReadonlyMap<string, number[]>;
  /** Time of the last answer (Unix ms); undefined before the first. */
  seenAt: number | undefined;
  /** Why the last poll failed; undefined while the daemon answers. */
  trouble: string | undefined;
  selected: string | undefined;
  sort: Sort;
  /** Show ended runs, too. */
  all: boolean;
  /** The run whose details are shown; undefined: the list is shown. */
  detail: RunDetailJson | "loading" | undefined;
  /** Show the keys instead of the runs. */
  help: boolean;
  /** The action that waits for confirmation. */
  confirmation: { question: string; action: Action } | undefined;
  message: string;
  /** Only runs whose name, id or tags contain this are shown. */
  search: string;
  /** Keys are letters of the search: none of them does anything to a run. */
  typing: boolean;
}

export type Action =
  | { type: "quit" }
  | { type: "cancel" | "pause" | "resume" | "retry"; run: string }
  | { type: "detail"; run: string };

export const INITIAL: TopState = {
  runs: [],
  host: undefined,
  curves: new Map(),
  seenAt: undefined,
  trouble: undefined,
  selected: undefined,
  sort: "newest",
  all: true,
  detail: undefined,
  help: false,
  confirmation: undefined,
  message: "",
  search: "",
  typing: false,
};

/** The runs in the order of the screen. */
export function visibleRuns(state: TopState, now: number): RunJson[] {
  const sought = state.search.toLowerCase();
  const shown = state.runs.filter((r) =>
    (state.all || r.outcome === null) &&
    [r.name, r.run_id, ...r.tags].some((text) => text.toLowerCase().includes(sought))
  );
  const by: Record<Sort, (a: RunJson, b: RunJson) => number> = {
    // Live runs first.
    newest: (a, b) =>
      Number(a.outcome !== null) - Number(b.outcome !== null) || (a.run_id < b.run_id ? 1 : -1),
    name: (a, b) => a.name.localeCompare(b.name),
    state: (a, b) => a.state.localeCompare(b.state),
    steps: (a, b) => b.telemetry.steps - a.telemetry.steps,
    rate: (a, b) => b.telemetry.steps_per_second - a.telemetry.steps_per_second,
    reward: (a, b) => (rewardOf(b) ?? -Infinity) - (rewardOf(a) ?? -Infinity),
    elapsed: (a, b) => (elapsedMs(b, now) ?? 0) - (elapsedMs(a, now) ?? 0),
  };
  return [...shown].sort(by[state.sort]);
}

/** The selected run; the first one if the selected run is no longer listed. */
export function selectedRun(state: TopState, now: number): RunJson | undefined {
  const runs = visibleRuns(state, now);
  return runs.find((r) => r.run_id === state.selected) ?? runs[0];
}

export function onKey(
  state: TopState,
  key: string,
  now: number,
  page: number,
): { state: TopState; action?: Action } {
  if (key === "ctrl-c") return { state, action: { type: "quit" } };
  if (state.confirmation !== undefined) {
    const { action } = state.confirmation;
    const answered = { ...state, confirmation: undefined };
    return key === "y"
      ? { state: answered, action }
      : { state: { ...answered, message: "not done" } };
  }
  const quiet = { ...state, message: "", help: false };
  // Any key closes the help and does nothing else, except q, which quits.
  if (state.help && key !== "q") return { state: quiet };
  const run = selectedRun(state, now);
  const select = (distance: number) => {
    const runs = visibleRuns(state, now);
    const at = Math.max(0, runs.findIndex((r) => r.run_id === run?.run_id));
    const to = runs[Math.min(runs.length - 1, Math.max(0, at + distance))];
    return { state: { ...quiet, selected: to?.run_id } };
  };
  if (state.typing) {
    if (key === "up" || key === "down") return select(key === "up" ? -1 : 1);
    if (key === "enter") return { state: { ...quiet, typing: false } };
    if (key === "escape") return { state: { ...quiet, typing: false, search: "" } };
    if (key === "backspace") {
      return { state: { ...quiet, search: [...state.search].slice(0, -1).join("") } };
    }
    return { state: { ...quiet, search: state.search + ([...key].length === 1 ? key : "") } };
  }
  const withMessage = (message: string) => ({ state: { ...quiet, message } });
  switch (key) {
    case "q":
      return { state: quiet, action: { type: "quit" } };
    case "?":
      return { state: { ...quiet, help: true } };
    case "/":
      return { state: { ...quiet, detail: undefined, typing: true } };
    case "escape":
      if (state.detail === undefined && state.search !== "") {
        return { state: { ...quiet, search: "" } };
      }
      return state.detail === undefined
        ? { state: quiet, action: { type: "quit" } }
        : { state: { ...quiet, detail: undefined } };
    case "up":
    case "k":
      return select(-1);
    case "down":
    case "j":
      return select(1);
    case "pageup":
      return select(-page);
    case "pagedown":
      return select(page);
    case "home":
    case "g":
      return select(-Infinity);
    case "end":
    case "G":
      return select(Infinity);
    case "s": {
      const sort = SORTS[(SORTS.indexOf(state.sort) + 1) % SORTS.length]!;
      return { state: { ...quiet, sort, message: `sorted by ${sort}` } };
    }
    case "a":
      return {
        state: { ...quiet, all: !state.all, message: state.all ? "live runs only" : "all runs" },
      };
  }
  if (run === undefined) return { state: quiet };
  const ended = ENDED_STATES.includes(run.state);
  const chosen = { ...quiet, selected: run.run_id };
  switch (key) {
    case "enter":
      return {
        state: { ...chosen, detail: "loading" },
        action: { type: "detail", run: run.run_id },
      };
    case "p":
      if (ended) return withMessage(`${run.name} has ended`);
      return {
        state: chosen,
        action: { type: run.state === "PAUSED" ? "resume" : "pause", run: run.run_id },
      };
    case "c":
      if (ended) return withMessage(`${run.name} has ended`);
      return {
        state: {
          ...chosen,
          confirmation: {
            question: `Cancel ${run.name}?`,
            action: { type: "cancel", run: run.run_id },
          },
        },
      };
    case "r":
      if (!ended) return withMessage(`${run.name} is still live`);
      return {
        state: {
          ...chosen,
          confirmation: {
            question: `Retry ${run.name}?`,
            action: { type: "retry", run: run.run_id },
          },
        },
      };
  }
  return { state: quiet };
}
