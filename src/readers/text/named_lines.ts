/**
 * Decides whether a line of names and numbers is a record of a training, and at which step. Pure.
 * Settings are printed in the same forms (`lr: 0.001, gamma: 0.99`), so a line needs a step, or a
 * name that only results have.
 */
import {
  fieldsOf,
  hasLostStep,
  LINE_STEP_NAMES,
  type LineFields,
  type Unread,
} from "./line_fields.ts";
import { type NamedNumber, namedNumbers } from "./named_numbers.ts";
import type { Progress } from "./progress_bars.ts";

/** Words of names that only results have. */
const RESULT =
  /(?:^|[_/. -])(?:loss(?:es)?|acc(?:uracy)?\d?|rewards?|returns?|scores?|ppl|perplexity|kl|entropy|mse|mae|rmse|nll|bce|elbo|bleu|f1|auc|auroc|iou|miou|map|dice|precision|recall|psnr|ssim|fid|bpc|bpb|wer|cer|success(?:_rate)?|win_?rate|elo|grad_?norm|gnorm|td_error|top[15]|ep_rew_mean|ep_len_mean)(?:$|[_/. @-])/i;
/** By the last word of a name, in small letters. */
const PLACES: { readonly [word: string]: string } = {
  ...Object.fromEntries(LINE_STEP_NAMES.map((name) => [name, name])),
  steps: "step",
  it: "iter",
  timestep: "timesteps",
  env_steps: "timesteps",
  episode: "episode",
  ep: "episode",
  epoch: "epoch",
};
/** Without an inner counter beside it, an epoch is a line's step. */
const INNER = new Set(["batch", "batch_idx", "minibatch", "i", "idx"]);

const NUMBERED =
  /[^\d\s=:]\s{0,3}[=:]\s{0,12}["'[]?(?:[-+.]?\d|nan|inf)|(?:step|iter|iteration|epoch|episode|update|loss|acc|reward|score)s?\s{1,12}\[?[-+.]?\d|%\||━|\}$/i;
const RESULTS = new RegExp(
  String.raw`${
    RESULT.source.replace("(?:$|[_/. @-])", "")
  }\w{0,40}["']?\s{0,3}[:= ]\s{0,8}[-+]?\.?\d`,
  "i",
);

/** Whether a line may be of one of these forms: most output is rejected here. */
export function isCandidate(line: string): boolean {
  return NUMBERED.test(line);
}

/**
 * Whether only results have such a name: `val_loss`, `accuracy`; settings and counts have others.
 */
export function isResultName(name: string): boolean {
  return RESULT.test(name);
}

/** Whether a line that no form reads seems to have results. W&B's client repeats them at its end. */
export function looksLikeResults(line: string): boolean {
  return RESULTS.test(line) && !line.startsWith("wandb: ");
}

/** @param why set, if the line is a record with a step that is no whole number */
export function readNamed(
  line: string,
  episodes: boolean,
  why: { unread?: Unread | undefined },
): LineFields | undefined {
  const found = namedNumbers(line);
  if (found === undefined) return undefined;
  const { items, pairs, texts } = found;
  const numbers = new Map<string, number>();
  let progress: Progress | undefined;
  let place: string | undefined;
  for (const item of items) {
    const at = placeOf(item);
    // `Episode: 5, Reward: 12, Steps: 200`: the episode's length.
    const isLength = /^steps$/i.test(item.name) && place !== undefined;
    if (at !== undefined && !isLength) {
      if (item.of !== undefined) progress ??= { at: item.value, of: item.of };
      place ??= at;
      if (!numbers.has(at)) numbers.set(at, item.value);
      continue;
    }
    numbers.set(
      item.name,
      item.of === undefined || item.of === 0 ? item.value : item.value / item.of,
    );
  }
  // `Epoch [3/10], Step [100/600]`: the step begins anew in each epoch, so it places nothing.
  const isWithin = items.some((item) => placeOf(item) === "epoch" && item.of !== undefined) &&
    items.some((item) => item.of !== undefined && LINE_STEP_NAMES.includes(placeOf(item) ?? ""));
  if (isWithin) { for (const name of LINE_STEP_NAMES) numbers.delete(name); }
  const results = items.filter(({ name }) => RESULT.test(name));
  const isPairs = items.every(({ by }) => by === "=") && pairs === items.length + texts.length;
  const hasStep = isWithin || LINE_STEP_NAMES.some((name) => numbers.has(name)) ||
    texts.some((name) => LINE_STEP_NAMES.includes(name));
  if (!isRecord({ items, pairs, results, isPairs, hasStep, place })) {
    return progress === undefined || numbers.size > 1 ? undefined : onlyProgress(progress);
  }
  if (!isWithin && hasLostStep(numbers, texts)) {
    why.unread = "step";
    return undefined;
  }
  if (found.hasOddValue) why.unread = "value";
  const dialect = isPairs ? "key_value" : "words";
  const epoch = numbers.get("epoch");
  const isEpochStep = !isPairs && !hasStep && !isWithin && !numbers.has("episode") &&
    epoch !== undefined &&
    Number.isInteger(epoch) &&
    epoch >= 0 && !items.some(({ name }) => INNER.has(name.toLowerCase())) &&
    !/(?<!epoch\s?)\[\s*\d+\s*\/\s*\d+/i.test(line);
  const fields = fieldsOf(dialect, numbers, episodes);
  if (fields === undefined) return progress === undefined ? undefined : onlyProgress(progress);
  if (isEpochStep) {
    fields.step = epoch;
    fields.scalars = fields.scalars.filter(([name]) => name !== "epoch");
    if (fields.scalars.length === 0) {
      return progress === undefined ? undefined : onlyProgress(progress);
    }
  }
  return progress === undefined ? fields : { ...fields, progress };
}

function placeOf({ name }: NamedNumber): string | undefined {
  const word = name.slice(name.lastIndexOf("_") + 1).toLowerCase();
  const whole = name.toLowerCase();
  if (Object.hasOwn(PLACES, whole)) return PLACES[whole];
  // `Train Epoch: 1`; but `time_per_step` is none.
  return /^(?:train|training|eval|val|valid|validation|test)_[a-z]+$/.test(whole) &&
      Object.hasOwn(PLACES, word)
    ? PLACES[word]
    : undefined;
}

function isRecord({ items, pairs, results, isPairs, hasStep, place }: {
  items: readonly NamedNumber[];
  pairs: number;
  results: readonly NamedNumber[];
  isPairs: boolean;
  hasStep: boolean;
  place: string | undefined;
}): boolean {
  if (isPairs) return pairs >= 2 || hasStep;
  const byWords = items.filter(({ by, name }) =>
    by === " " && !Object.hasOwn(PLACES, name.toLowerCase())
  );
  // `step 200 loss 0.57`: each number must be a result's if the line says no step, else the first
  // one.
  if (byWords.length > 0) {
    return place !== undefined
      ? results.length > 0
      : results.length === items.length && items.length >= 2;
  }
  if (results.length > 0) {
    return items.length >= 2 || !items[0]!.name.includes("_") || place !== undefined;
  }
  return hasStep && items.length >= 2;
}

function onlyProgress(progress: Progress): LineFields {
  return {
    dialect: "bar",
    step: undefined,
    stepIsEpisode: false,
    wallTime: undefined,
    scalars: [],
    episode: undefined,
    progress,
  };
}
