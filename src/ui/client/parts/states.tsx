/** States of a run: their style, and the actions they allow. */
import type { RunJson } from "../../../runs/fields/run_types.ts";
import {
  ENDED_STATES,
  RUN_STATES,
  shownState,
  stateWord,
} from "../../../runs/fields/lifecycle_states.ts";
import { words } from "./format.ts";

export const isEnded = ({ state }: Pick<RunJson, "state">): boolean => ENDED_STATES.includes(state);

export function Chip({ state }: { state: string }) {
  return <span class="chip" data-state={state} title={state}>{stateWord(state)}</span>;
}

/** 3 EXECUTING, 1 FAULTED: for a group, in the order of a run's life. */
export function countStates(
  runs: readonly Pick<RunJson, "state" | "reason">[],
): [state: string, count: number][] {
  return [...RUN_STATES, "PRUNED"].map((
    state,
  ): [string, number] => [state, runs.filter((r) => shownState(r) === state).length])
    .filter(([, count]) => count > 0);
}

/** The states of a group: one as a word, several as signs with their counts. */
export function Chips({ of }: { of: readonly Pick<RunJson, "state" | "reason">[] }) {
  const counts = countStates(of);
  if (counts.length === 1) return <Chip state={counts[0]![0]} />;
  return (
    <span class="states">
      {counts.map(([state, count]) => (
        <span key={state} class="chip" data-state={state} title={`${count} ${stateWord(state)}`}>
          {count}
          <span class="unseen">{` ${stateWord(state)}`}</span>
        </span>
      ))}
    </span>
  );
}

/** exit_code_1 → "Exit code 1" */
export function sentence(name: string): string {
  const text = words(name);
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
