/** What one printed line gives, whatever its form. */
import type { PrintedTrial } from "./trial_lines.ts";
import { STEP_NAMES, stepOf, timeName, timeOf } from "../format/step_column.ts";
import type { Progress } from "./progress_bars.ts";
import type { TextDialect } from "./text_dialects.ts";

export interface LineEpisode {
  return: number | null;
  length: number | null;
  time: number | null;
}

export interface LineFields {
  dialect: TextDialect;
  step: number | undefined;
  /** The step is the line's episode, because the line has no step. */
  stepIsEpisode: boolean;
  wallTime: number | undefined;
  scalars: [tag: string, value: number][];
  episode: LineEpisode | undefined;
  /** How far the program is, if the line says so; then there may be no scalars. */
  progress?: Progress | undefined;
  /** A trial of a study has ended. */
  trial?: PrintedTrial | undefined;
}

/**
 * Why a line that seems to have numbers of a training gave none:
 * - `form`: no dialect reads the line
 * - `step`: its step is there, but is no whole number
 * - `value`: the line gave something, but not a value that begins like a number
 */
export type Unread = "form" | "step" | "value";

export const MAX_FIELDS = 1000;
/**
 * An epoch may be a fraction (Transformers), so here it is a series. In a file with a header it can
 * be the step.
 */
export const LINE_STEP_NAMES: readonly string[] = STEP_NAMES.filter((name) => name !== "epoch");
/** What places a line: its step, else its episode. */
export const PLACE_NAMES: readonly string[] = [...LINE_STEP_NAMES, "episode"];
/** `update` may be the size of an update, too. */
const STEPS_ONLY = LINE_STEP_NAMES.filter((name) => name !== "update");

/**
 * Whether a step is there, and none that can be used: the line's numbers have no place, and must
 * not get a false one.
 */
export function hasLostStep(
  numbers: ReadonlyMap<string, number>,
  texts: readonly string[] = [],
): boolean {
  if (LINE_STEP_NAMES.some((name) => stepOf(numbers.get(name)) !== undefined)) return false;
  return STEPS_ONLY.some((name) => numbers.has(name) || texts.includes(name));
}

export function fieldsOf(
  dialect: TextDialect,
  numbers: ReadonlyMap<string, number>,
  episodes: boolean,
): LineFields | undefined {
  if (numbers.size === 0 || numbers.size > MAX_FIELDS) return undefined;
  const place = placed(numbers);
  if (place.scalars.length === 0) return undefined;
  const episodicReturn = numbers.get("episodic_return");
  const episode = !episodes || episodicReturn === undefined
    ? undefined
    : { return: episodicReturn, length: numbers.get("episodic_length") ?? null, time: null };
  return { dialect, ...place, episode };
}

/** The line's step and time, and its numbers without those two. */
export function placed(
  numbers: ReadonlyMap<string, number>,
): Omit<LineFields, "dialect" | "episode"> {
  const stepKey = PLACE_NAMES.find((name) => stepOf(numbers.get(name)) !== undefined);
  const timeKey = timeName(numbers.keys());
  const wallTime = timeOf(timeKey === undefined ? undefined : numbers.get(timeKey));
  return {
    step: stepKey === undefined ? undefined : numbers.get(stepKey),
    stepIsEpisode: stepKey === "episode",
    wallTime,
    scalars: [...numbers].filter(([name]) =>
      name !== stepKey && (name !== timeKey || wallTime === undefined)
    ),
  };
}
