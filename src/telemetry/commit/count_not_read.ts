/**
 * What a program produced and mosaic did not take, counted with a run's violations under `not read:
 * …`. Events say more: `not_read` (printed lines, files that nobody asked for) and `source_problem`
 * (files).
 */
import { parsedObject } from "../../base/text/json_text.ts";
import { addViolation, type RunState } from "../runs/run_state.ts";

const PREFIX = "not read: ";
const NOT_READ = "not_read";
const PROBLEM = "source_problem";

interface Named {
  kind: string;
  dataJson: string;
}

/** The violation's name and how many an event counts; undefined for any other event. */
function countedBy({ kind, dataJson }: Named): { name: string; count: number } | undefined {
  if (kind !== NOT_READ && kind !== PROBLEM) return undefined;
  const { source, what, detail, problem, count } = parsedObject(dataJson) ?? {};
  // A file that was replaced is read from its beginning.
  if (problem === "replaced") return undefined;
  const said = kind === NOT_READ ? what : detail;
  if (typeof said !== "string") return undefined;
  // The kind is counted, not each example.
  const text = said.replace(/, as in ".*$/s, "");
  const file = typeof source === "string" ? `${source.slice(source.lastIndexOf("/") + 1)}: ` : "";
  const n = typeof count === "number" && Number.isSafeInteger(count) && count > 0 ? count : 1;
  return { name: `${PREFIX}${file}${text}`.slice(0, 200), count: n };
}

export function countNotRead(state: RunState, event: Named): void {
  const counted = countedBy(event);
  if (counted !== undefined) addViolation(state, counted.name, counted.count);
}

/**
 * Each batch of a journal reports its lines: an event of a kind that the run has already is only
 * counted.
 */
export function withoutRepeats<E extends Named>(
  state: RunState | undefined,
  events: readonly E[],
): readonly E[] {
  if (state === undefined || !events.some(({ kind }) => kind === NOT_READ)) return events;
  return events.filter((event) => {
    const counted = event.kind === NOT_READ ? countedBy(event) : undefined;
    if (counted === undefined || !Object.hasOwn(state.violations, counted.name)) return true;
    addViolation(state, counted.name, counted.count);
    return false;
  });
}
